"""`python -m benchmarks.evaluation`: run the goals with a model, and say what came of them."""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from benchmarks.machine import machine
from journal.values import JsonObject
from server.settings import SettingsError
from server.settings_file.document import read_document

from .goals import GOALS
from .measured import Result
from .results import Results, results_file
from .running import Trial, run_goal
from .script import SCRIPTED
from .tables import TABLE, as_json, line, row, summary, with_row

_INTERRUPTED = 130
_FROM_CONFIG = ("model", "models", "model_options", "budget", "workers")


def main(words: Sequence[str]) -> int:
    """Run what is asked for; 0, or 130 where it was interrupted."""
    parser = _parser()
    asked = parser.parse_args(words)
    names = [name for name in (asked.goals or "").split(",") if name] or list(GOALS)
    if unknown := sorted(set(names) - set(GOALS)):
        parser.error(f"no goal is called {unknown[0]}; there are {', '.join(GOALS)}")
    try:
        trial = _trial(asked)
    except SettingsError as error:
        parser.error(str(error))
    results = Results(asked.results or results_file(trial.name))
    try:
        done = anyio.run(partial(_run_all, names, trial, results, asked))
    except KeyboardInterrupt:
        sys.stderr.write(f"\nInterrupted. {results.path} holds what was measured; --resume goes on.\n")
        return _INTERRUPTED
    sys.stdout.write(f"\n{summary(done)}\n" if not asked.json else "")
    if asked.write:
        on = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine()}"
        TABLE.write_text(with_row(TABLE.read_text(encoding="utf-8"), row(done, on=on, label=asked.label)))
    return 0


async def _run_all(names: Sequence[str], trial: Trial, results: Results, asked: argparse.Namespace) -> list[Result]:
    mine = [each for each in results.begin(resume=asked.resume) if (each.model, each.seed) == (trial.name, trial.seed)]
    # What was skipped may be there by now.
    done = [each for each in mine if each.verdict != "skipped"]
    known = {(each.goal, each.repeat) for each in done}
    for repeat in range(1, asked.repeat + 1):
        for name in names:
            if (name, repeat) in known:
                continue
            result = await run_goal(name, trial, repeat=repeat)
            results.add(result)
            done.append(result)
            sys.stdout.write((as_json(result) if asked.json else line(result)) + "\n")
            sys.stdout.flush()
    return done


def _trial(asked: argparse.Namespace) -> Trial:
    """Raises SettingsError."""
    settings: JsonObject = {}
    if asked.config is not None:
        data = read_document(asked.config).data
        settings = {key: item for key, item in data.items() if key in _FROM_CONFIG}
    name = asked.model or str(settings.get("model") or "scripted")
    if asked.model is not None and asked.model not in SCRIPTED:
        # What the file says of models by role would take its place.
        settings = {key: item for key, item in settings.items() if key != "models"} | {"model": asked.model}
    if asked.api_base is not None:
        settings["model_options"] = settings.get("model_options", {}) | {"api_base": asked.api_base}
    return Trial(name, settings, asked.seed, asked.seconds, asked.keep)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help=f"as in settings; {', '.join(SCRIPTED)} come with the kit and check it; scripted if neither is given",
    )
    parser.add_argument(
        "--config", type=Path, metavar="F", help=f"settings of which {', '.join(_FROM_CONFIG)} are taken"
    )
    parser.add_argument("--api-base", metavar="URL", help="of an OpenAI-compatible server, as model_options.api_base")
    parser.add_argument("--goals", metavar="A,B", help="these only")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="each goal so often, with other numbers")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the numbers in the material")
    parser.add_argument("--seconds", type=float, default=300.0, metavar="N", help="budget.seconds of each run")
    parser.add_argument("--json", action="store_true", help="one result a line, and nothing else")
    parser.add_argument("--results", type=Path, metavar="F", help="where results are kept as they come")
    parser.add_argument("--resume", action="store_true", help="go on where the results end")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what each run leaves in there")
    parser.add_argument("--write", action="store_true", help=f"put the sum into benchmarks/{TABLE.name}")
    parser.add_argument("--label", default="", metavar="TEXT", help="what that table calls the model")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
