"""What there is for a plan to name, and what its writer is told."""

from typing import Any

import pytest
from planner_rig import TOOLS, tool

from downstream.tools import Tool
from executors.settings import WorkerSettings, built_in_workers
from planner.checker import Bounds, check_plan
from planner.plan import PlanError

Json = Any
WORKERS = (*built_in_workers(), WorkerSettings(name="reader", tools=("notes.*",), disallowed_tools=("notes.read",)))


def is_denied(tool: Tool) -> bool:
    return tool.full_name == "notes.denied"


def bounds(**changes: Json) -> Bounds:
    tools = (*TOOLS, tool("notes.denied"), tool("long.name"))
    fields: dict[str, Json] = {
        "tools": tools,
        "workers": {worker.name: worker for worker in WORKERS},
        "denied": is_denied,
        "max_steps": 20,
    }
    return Bounds(**{**fields, **changes})


def worker(id_: str = "w", **fields: Json) -> Json:
    return {"id": id_, "kind": "worker", "worker": "researcher", "task": "find it"} | fields


def errors_of(*steps: Json, **changes: Json) -> list[str]:
    with pytest.raises(PlanError) as raised:
        check_plan({"steps": list(steps)}, bounds(**changes))
    return list(raised.value.errors)
