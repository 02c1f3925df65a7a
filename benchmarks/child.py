"""A measurement that needs a process of its own: `python -m benchmarks.child loads JSON` or `… wake FOLDER`."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import anyio

from .loads import Load, Taken, carry_out
from .places import open_folder
from .wake import drive_and_tell

ROOT = Path(__file__).parent.parent


def carried_out(loads: Sequence[Load]) -> list[Taken]:
    """The loads, one after the other, in a process that does nothing else: time, memory and imports are its own."""
    said = json.dumps([asdict(load) for load in loads])
    command = [sys.executable, "-m", "benchmarks.child", "loads", said]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return [Taken(**taken) for taken in json.loads(done.stdout)]


def main(what: str, argument: str) -> None:
    """Do what the parent process asks for; what it has to know goes to stdout."""
    if what == "wake":
        anyio.run(drive_and_tell, Path(argument))
        return
    loads = [Load(**load) for load in json.loads(argument)]
    for kind in {load.kind for load in loads}:
        # What is imported and read once is no part of what a step costs.
        _one(replace(loads[0], kind=kind, runs=1, length=1))
    sys.stdout.write(json.dumps([asdict(_one(load)) for load in loads]))


def _one(load: Load) -> Taken:
    with open_folder(Path(load.within)) as folder:
        return anyio.run(carry_out, load, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
