"""One goal through the whole product: its own folder, real tool servers, a person who answers, a bounded time."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import anyio
import anyio.to_thread

from journal.runs import Run
from journal.values import Json, JsonObject
from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, load_settings
from server.views.cost import Cost, cost_of

from .goal import Goal, Place
from .goals import GOALS
from .judging import Ended, problems
from .material import NotThere, lay_out, state_of
from .measured import Result, Told, Verdict, tokens_by_role, told_of
from .person import Person
from .script import SCRIPTED

_BUDGET: JsonObject = {"steps": 20, "revisions": 2, "model_calls": 60, "tool_calls": 60, "tokens": 400_000}
_GRACE = 60.0
"""Seconds beyond its budget after which a run is cancelled."""


@dataclass(frozen=True)
class Trial:
    """How goals are run: the model, the seed of the material, and seconds for each run.

    `name` is what the results call the model; `settings` are keys of a settings file that choose it. One of `SCRIPTED`
    needs none. Where `keep` is a folder, all that a run leaves is kept there.
    """

    name: str
    settings: JsonObject = field(default_factory=dict[str, Json])
    seed: int = 1
    seconds: float = 300.0
    keep: Path | None = None


@dataclass(frozen=True)
class _Seen:
    """A run at its end, with what its store tells of it."""

    run: Run
    told: Told
    cost: Cost
    person: Person


async def run_goal(name: str, trial: Trial, *, repeat: int = 1) -> Result:
    """Run one goal and judge it; one whose servers can't be had is skipped, and `problems` says why."""
    with _folder(trial, f"{name}-{repeat}") as folder:
        place = Place(folder, Random(f"{trial.seed}/{name}/{repeat}"))
        goal = GOALS[name](place)
        blank = Result(name, goal.kind, trial.name, trial.seed, repeat, "skipped")
        try:
            config = await anyio.to_thread.run_sync(_prepare, goal, place, trial)
        except NotThere as error:
            return replace(blank, problems=(str(error),))
        before = await anyio.to_thread.run_sync(state_of, place)
        began = time.monotonic()
        seen = await _seen(goal, trial, config)
        taken = time.monotonic() - began
        after = await anyio.to_thread.run_sync(state_of, place)
    run = seen.run
    wrong = problems(goal, Ended(run.status, run.answer or "", seen.told.made(), before, after))
    return replace(_measured(blank, seen), verdict=_verdict(wrong, run), problems=tuple(wrong), seconds=round(taken, 2))


def _prepare(goal: Goal, place: Place, trial: Trial) -> Path:
    """The material on disk, and the settings file."""
    settings = lay_out(goal, place) | _model(goal, place, trial)
    settings |= {"store": f"sqlite:///{place.folder / 'store.db'}", "approvals": {"page": "off"}}
    settings["budget"] = _BUDGET | trial.settings.get("budget", {}) | {"seconds": trial.seconds}
    path = place.folder / "steprelay.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def _model(goal: Goal, place: Place, trial: Trial) -> JsonObject:
    if trial.name not in SCRIPTED:
        return trial.settings
    script = place.folder / "script.json"
    script.write_text(json.dumps(SCRIPTED[trial.name](goal)), encoding="utf-8")
    return {"model": f"scripted:{script}"}


async def _seen(goal: Goal, trial: Trial, config: Path) -> _Seen:
    settings = load_settings(Found(config, "option"), environ=os.environ)
    async with open_product(settings, world=World(), adopts=False) as product:
        run_id = await product.start(Request(goal.text, goal_label="user"))
        person = Person(goal)
        run = await _ended(product, run_id, person, seconds=trial.seconds + _GRACE)
        return _Seen(run, await told_of(product.store, run_id), await cost_of(product.store, run_id), person)


async def _ended(product: Product, run_id: str, person: Person, *, seconds: float) -> Run:
    with anyio.move_on_after(seconds):
        return await person.attend(product, run_id)
    await product.cancel(run_id, "it took too long")
    return await product.store.run(run_id)


def _measured(blank: Result, seen: _Seen) -> Result:
    run, total = seen.run, seen.cost.total
    return replace(
        blank,
        status=run.status,
        stop_reason=run.stop_reason,
        answer=run.answer or "",
        planned_by=seen.told.planned_by,
        plan=seen.told.plan_rungs(),
        tokens=tokens_by_role(seen.cost),
        model_calls=total.model_calls,
        tool_calls=total.tool_calls,
        asked=seen.person.asked,
        unwanted=tuple(seen.person.unwanted),
        usd=total.cost_usd,
        cost_known=total.cost_known,
    )


def _verdict(wrong: list[str], run: Run) -> Verdict:
    if not wrong:
        return "reached"
    return "false success" if run.status == "succeeded" else "not reached"


@contextmanager
def _folder(trial: Trial, name: str) -> Generator[Path]:
    if trial.keep is not None:
        folder = trial.keep.resolve() / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="evaluation-") as made:
        yield Path(made).resolve()
