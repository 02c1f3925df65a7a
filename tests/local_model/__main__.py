"""`make test-local-model`: real models on this machine, unattended, over the demo's tool servers."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from .assets import MODELS, Installed, Model, Name, NotThere, fetch, with_weights
from .goals import GOALS, SIMPLE, Goal
from .running import Bench, ServerEnded, open_llama
from .settings import write_settings
from .table import HEAD, Row, summary
from .tap import open_tap

_SERVER = "xllamacpp (32 MB), into an environment of its own in the cache of tests"
_LEAST_TRUE = 8


def main() -> int:
    """Run the goals; 0 where no run did what none may do, and a model that is no toy answered 8 of 10."""
    words = _words()
    given = os.environ.get("STEPRELAY_LOCAL_MODEL")
    name: Name = words.model
    _say(f"downloads, unless they are there already: {_SERVER}")
    if given:
        _say(f"the model is {given} (STEPRELAY_LOCAL_MODEL)")
    else:
        _say(f"and {MODELS[name].downloads}: {MODELS[name].title}")
    try:
        installed = with_weights(Path(given)) if given else fetch(name)
        is_toy = name == "smollm2" and not given
        goals = GOALS if is_toy else SIMPLE
        model = MODELS["qwen" if given else name]
        rows = _run(installed, model, goals[: words.goals or None], seconds=words.seconds)
    except (NotThere, ServerEnded) as error:
        _say(str(error))
        return 2
    for line in summary(rows):
        _say(line)
    true = sum(row.ran.is_true for row in rows)
    enough = is_toy or true >= min(_LEAST_TRUE, len(rows))
    return 0 if enough and not any(row.wrong for row in rows) else 1


def _run(installed: Installed, server: Model, goals: tuple[Goal, ...], *, seconds: float) -> list[Row]:
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as made,
        open_llama(installed, server.context, server.how) as address,
        open_tap(address) as tap,
    ):
        folder = Path(made)
        model = {"model": "openai/local", "model_options": {"api_base": f"{tap.url}/v1", "timeout": seconds}}
        # What a small model needs, and no more: it ends where it turns in circles, and revises plans for the worse.
        budget = {"seconds": seconds, "model_calls": 24, "tokens": 60_000, "revisions": 0, "steps": 8}
        bench = Bench(folder, write_settings(folder, model, budget=budget), seconds)
        _say(HEAD)
        for goal in goals:
            before = len(tap.asked)
            ran = bench.run(goal)
            rows.append(Row(ran, tap.since(before)))
            _say(rows[-1].line())
            if keep := os.environ.get("STEPRELAY_KEEP"):
                _keep(Path(keep), rows[-1])
    return rows


def _keep(folder: Path, row: Row) -> None:
    """For whoever wants to see why: the run's events and its answer."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [*map(str, row.ran.events), str(row.ran.view), *map(str, row.asked)]
    (folder / f"goal-{row.ran.goal.number}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _words() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test-local-model", description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2")
    parser.add_argument("--goals", type=int, default=0, help="only so many")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each run")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
