"""Runs on a scripted model and the tool server that starts at once: their settings, and what that server wrote down."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import toys
from mcp_hosts import Host

_SERVER = Path(__file__).parent / "toy_servers" / "quick_server.py"
LOG = "quick.log"


def quick(log: Path) -> list[str]:
    """The command of the server; it may be asked for calls at once."""
    log.touch()
    return [sys.executable, "-I", str(_SERVER), str(log)]


def settings(folder: Path, script: Mapping[str, Any], *, name: str = "steprelay.json", **more: Any) -> Path:
    """A settings file that allows `add` and `stuck`; all that it names lies in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script))
    whole = {
        "model": f"scripted:{folder / 'script.json'}",
        "store": f"sqlite:///{folder / 'store' / 'steprelay.db'}",
        "mcpServers": {"quick": toys.entry(quick(folder / LOG))},
        "server_options": {"quick": {"max_parallel": 16}},
        "policy": {"rules": [{"allow": "quick.add"}, {"allow": "quick.stuck"}]},
        **more,
    }
    path = folder / name
    path.write_text(json.dumps(whole))
    return path


def made(folder: Path, *tools: str) -> list[tuple[str, str]]:
    """The calls that the server was sent, of these tools or of all: the tool and its first argument."""
    return [(call["tool"], next(iter(call["arguments"].values()))) for call in toys.calls(folder / LOG, *tools)]


async def reached(host: Host, run_id: str, *statuses: str) -> Any:
    """The run, in full, once it has one of these statuses."""
    asked: dict[str, Any] = {"run_id": run_id, "detail": True}
    with anyio.fail_after(60):
        while (view := await host.structured("get_run", asked))["status"] not in statuses:
            asked["wait_seconds"] = 5
    return view
