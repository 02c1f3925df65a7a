"""References in arguments: one pass over literals puts values in their place, and never reads those again."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from downstream.door import Arguments
from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject, Label, Value

from .paths import ReferenceMissing, follow, kind

STEP, ARTIFACT, LITERAL = "$step", "$artifact", "$literal"
_REFERENCE = re.compile(r"([a-z][a-z0-9_]{0,31})((?:[.\[].*)?)", re.DOTALL)


class ReadArtifact(Protocol):
    """The value of an artifact, or of what stands at a path of it. Raises ReferenceMissing."""

    async def __call__(self, artifact_id: str, path: str | None) -> Value: ...


async def resolve(
    arguments: JsonObject, inputs: Mapping[str, Value], *, label: Label, read_artifact: ReadArtifact
) -> Arguments:
    """Arguments of a plan with every reference replaced; `label` is that of its literals. Raises ReferenceMissing."""
    return await _resolved(arguments, _Pass(inputs, read_artifact), label)


async def resolve_artifacts(arguments: JsonObject, *, label: Label, read_artifact: ReadArtifact) -> Arguments:
    """Arguments that a worker's model wrote: only `$artifact` is a reference. Raises ReferenceMissing."""
    return await _resolved(arguments, _Pass(None, read_artifact), label)


@dataclass(frozen=True)
class _Pass:
    """One pass over arguments; `inputs` None means that steps cannot be referred to."""

    inputs: Mapping[str, Value] | None
    read_artifact: ReadArtifact
    parts: dict[str, Label] = field(default_factory=dict[str, Label])

    async def put(self, data: Json, pointer: str) -> Json:
        if is_array(data):
            return [await self.put(item, f"{pointer}/{index}") for index, item in enumerate(data)]
        if not is_object(data):
            return data
        if self.inputs is not None and set(data) == {LITERAL}:
            return data[LITERAL]
        if (value := await self._referred(data)) is not None:
            self.parts[pointer] = value.label
            return value.data
        return {key: await self.put(item, f"{pointer}/{_escaped(key)}") for key, item in data.items()}

    async def _referred(self, data: JsonObject) -> Value | None:
        if self.inputs is not None and set(data) == {STEP}:
            return _step_value(data[STEP], self.inputs)
        if ARTIFACT in data and set(data) <= {ARTIFACT, "path"}:
            path = data.get("path")
            return await self.read_artifact(str(data[ARTIFACT]), None if path is None else str(path))
        return None


async def _resolved(arguments: JsonObject, one_pass: _Pass, label: Label) -> Arguments:
    data = await one_pass.put(arguments, "")
    if not is_object(data):
        raise ReferenceMissing(f"arguments must be an object; the reference gives {kind(data)}")
    return Arguments(data, label, one_pass.parts)


def _step_value(reference: Json, inputs: Mapping[str, Value]) -> Value:
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if found is None:
        raise ReferenceMissing(f"{reference!r} is not a reference; write step or step.path.to[0].field")
    step, path = found.groups()
    if step not in inputs:
        there = (
            f"this step has values of {', '.join(sorted(inputs))}" if inputs else "this step has no values of others"
        )
        raise ReferenceMissing(f"step {step} gave no value; {there}")
    return Value(follow(inputs[step].data, path, start=step), inputs[step].label)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
