"""Products with one tool server that asks, and what tests do with them."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import toys
from mcp_hosts import Host
from products import Opened, call_step, open_test_product, script

GOAL = {"goal": "Do what is needed."}
SETTINGS: dict[str, Any] = {
    "approvals": {"min_answer_seconds": 0},
    "policy": {"rules": [{"allow": "shop.*"}]},
}
ORDER = call_step("buy", "shop.order", item="tea")
_SERVERS = Path(__file__).parent / "toy_servers"


def log(folder: Path) -> list[str]:
    """What the server did and heard."""
    path = folder / "shop.log"
    return path.read_text().splitlines() if path.exists() else []


@asynccontextmanager
async def open_shop(folder: Path, *steps: Any, older: bool = False, **settings: Any) -> AsyncGenerator[Opened]:
    """A product with one server, which asks."""
    name = "older_asking_server.py" if older else "asking_server.py"
    servers = {"shop": toys.entry([sys.executable, str(_SERVERS / name), str(folder / "shop.log")])}
    said = script(*steps, revise=[{"decision": "continue", "reason": "So it is."}] * 3)
    async with open_test_product(folder, script=said, servers=servers, settings=SETTINGS | settings) as opened:
        yield opened


async def waiting(host: Host, **given: Any) -> tuple[Any, Any]:
    """Have a run come to its question; the view and the action."""
    view = await host.structured("plan_and_execute", GOAL | given)
    with anyio.fail_after(20):
        while not view["actions"]:
            assert view["stop_reason"] is None, view
            view = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 1})
    return view, view["actions"][0]


def word(action: Any, decision: str = "submit", **more: Any) -> dict[str, Any]:
    """What `approve_action` is to be called with."""
    return {"action_id": action["action_id"], "decision": decision, "arguments": action["arguments"], **more}


async def until_logged(folder: Path, *lines: str) -> None:
    """Wait until the server has written these lines."""
    with anyio.fail_after(20):
        # No event reaches from another process into this one.
        while not set(lines) <= {line.strip() for line in log(folder)}:  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def until_asked(host: Host, run_id: str) -> tuple[Any, Any]:
    """Wait until something waits in a run; the view and the first action."""
    view = await host.structured("get_run", {"run_id": run_id})
    with anyio.fail_after(20):
        while not view["actions"]:
            assert view["stop_reason"] is None, view
            view = await host.structured("get_run", {"run_id": run_id, "wait_seconds": 1})
    return view, view["actions"][0]
