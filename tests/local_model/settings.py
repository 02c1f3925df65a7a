"""The demo's tool servers in a settings file of their own, with any model."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from journal.values import JsonObject

from .goals import NOTES

_OWN = (sys.executable, "-P", "-c", "from server.app import main; main()")


def write_settings(folder: Path, model: Mapping[str, object], **more: object) -> Path:
    """Write settings below the folder, where the store and the outbox lie too; returns their path."""
    folder.mkdir(parents=True, exist_ok=True)
    command, *first = _OWN

    def server(*arguments: str) -> JsonObject:
        return {"command": command, "args": [*first, "tool-server", *arguments]}

    servers = {
        "notes": server("notes", str(NOTES)),
        "code": server("code"),
        "outbox": server("outbox", str(folder / "outbox")),
    }
    whole: JsonObject = {
        **model,
        "mcpServers": servers,
        # All of them are the user's own, so that a look-up in one asks for nothing because of another.
        "server_options": {name: {"private": True} for name in servers},
        "store": f"sqlite:///{folder / 'store.db'}",
        **more,
    }
    path = folder / "settings.json"
    path.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    return path
