"""Settings of the demo, written at run time because they name this installation and the user's state folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from journal.values import JsonObject

GOAL = (
    "Mail team@harbour.example a short status of the Harbour Festival: when and where it is, "
    "and what is left of its budget"
)
_DATA = Path(__file__).parent


@dataclass(frozen=True)
class Demo:
    """Where the demo's parts lie; `outbox` is where its mails are found afterwards."""

    settings: Path
    script: Path
    outbox: Path


def prepare_demo(folder: Path, own_process: Sequence[str]) -> Demo:
    """Write the demo's settings below the folder; `own_process` is how this steprelay starts itself again."""
    demo = Demo(folder / "settings.json", _DATA / "script.yaml", folder / "outbox")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    command, *first = own_process

    def server(*arguments: str) -> JsonObject:
        return {"command": command, "args": [*first, "tool-server", *arguments]}

    servers = {
        "notes": server("notes", str(_DATA / "notes")),
        "code": server("code"),
        "outbox": server("outbox", str(demo.outbox)),
    }
    settings: JsonObject = {
        "model": f"scripted:{demo.script}",
        "mcpServers": servers,
        # What one of the user's own servers says may be given to another: no question for that.
        "server_options": {name: {"private": True} for name in servers},
        "store": f"sqlite:///{folder / 'steprelay.db'}",
    }
    demo.settings.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return demo
