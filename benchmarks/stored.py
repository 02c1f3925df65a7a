"""Stores with many runs in them, made from one real run by copying its rows."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from server.settings import Found, load_settings

from .rig import Act, Setting, one_step, open_rig, plan_of

_COPIED = ("runs", "memo", "steps", "ledger", "events", "actions")
"""The audit is a chain, of which no link can be copied."""


@dataclass(frozen=True)
class Standing:
    """A settings file, its fingerprint and the folder of its store."""

    config: Path
    fingerprint: str

    @classmethod
    def of(cls, config: Path) -> "Standing":
        settings = load_settings(Found(config, "option"), environ={}, lenient=True)
        return cls(config, settings.fingerprint)

    @property
    def folder(self) -> Path:
        return self.config.parent


def settings_in(folder: Path) -> Standing:
    """Settings with a scripted model and no tool server, whose store lies beside them."""
    config = folder / "steprelay.json"
    (folder / "model.json").write_text(json.dumps({"answer": "All is done."}))
    whole = {"model": f"scripted:{folder / 'model.json'}", "store": f"sqlite:///{folder / 'store.db'}"}
    config.write_text(json.dumps(whole))
    return Standing.of(config)


def fill(standing: Standing, act: Act, runs: int, *, real: int = 1) -> list[str]:
    """So many runs of these settings: ended ones of four steps for `look`, ones that wait for a yes for `send`.

    Returns the ids of the `real` ones; the others are copies of the first, good for waiting but not for going on.
    """
    if runs == 0:
        return []
    ids = anyio.run(partial(_real_runs, standing, act, real))
    _copy(standing.folder / "store.db", ids[0], runs - real)
    return ids


async def _real_runs(standing: Standing, act: Act, number: int) -> list[str]:
    left, let_go = number, anyio.Event()

    def one_less() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            let_go.set()

    plan = one_step(act) if act == "send" else plan_of(act, chains=2, length=1)
    async with open_rig(Setting(standing.folder, standing.fingerprint, ended=one_less)) as rig:
        ids = [await rig.create(plan, goal=f"Goal {each}") for each in range(number)]
        await rig.engine.wake(ids[0])
        await let_go.wait()
    return ids


def _copy(store: Path, run_id: str, copies: int) -> None:
    if copies == 0:
        return
    database = sqlite3.connect(store, isolation_level=None)
    try:
        database.execute("BEGIN")
        for table in _COPIED:
            names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(_value(name, _ids(table)) for name in names)
            numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            key = "id" if table == "runs" else "run"
            database.execute(
                f"INSERT INTO {table} ({', '.join(names)}) {numbers} SELECT {values} FROM n, {table} WHERE {key} = ?",
                (copies, run_id),
            )
        database.execute("COMMIT")
    finally:
        database.close()


def _ids(table: str) -> Mapping[str, str]:
    """Columns that differ from copy to copy, and the prefix of their ids."""
    own = {"runs": {"id": "r"}, "actions": {"id": "a", "run": "r"}}
    return own.get(table, {"run": "r"})


def _value(name: str, ids: Mapping[str, str]) -> str:
    return f"printf('{ids[name]}_%026d', i)" if name in ids else name
