"""Stand-ins for the vendors' libraries that AgentDojo imports and a scripted worker never uses.

Runs in AgentDojo's own environment, where only what the suites need is installed; import it before `agentdojo`.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

_LEFT_OUT = frozenset(
    {"anthropic", "cohere", "dotenv", "google", "langchain", "langchain_core", "openai", "requests", "tenacity"}
)


class _Kind(type):
    """The type of the stand-in: any attribute, call, index and union of it is the stand-in again."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __call__(cls, *args: object, **more: object) -> Any:
        return Anything

    def __getitem__(cls, key: object) -> Any:
        return Anything

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return Anything

    def __ror__(cls, other: Any) -> Any:
        return Anything


class Anything(metaclass=_Kind):
    """Whatever a library that is left out would have there."""


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        left_out = fullname.partition(".")[0] in _LEFT_OUT
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True) if left_out else None


sys.meta_path.insert(0, _Finder())
