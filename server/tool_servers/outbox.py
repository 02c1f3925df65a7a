"""A tool server that writes messages into a folder: drafts, and messages marked as sent. It never sends anything."""

import json
import os
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from .folders import writable_folder

LINE_MAX = 1_000
BODY_MAX = 200_000
# Each message is new and none is undone or overwritten. A sent one is meant to leave for people elsewhere: open world.
_DRAFT = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_SEND = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)

# In the schema, so that a host can refuse a bad call before it asks anybody; checked in `_check`, in our own words.
To = Annotated[
    str,
    Field(
        description="Who it is for: one line, several addresses separated by commas",
        json_schema_extra={"minLength": 1, "maxLength": LINE_MAX},
    ),
]
Subject = Annotated[str, Field(description="One line", json_schema_extra={"minLength": 1, "maxLength": LINE_MAX})]
Body = Annotated[str, Field(description="Plain text", json_schema_extra={"minLength": 1, "maxLength": BODY_MAX})]


class Receipt(BaseModel):
    """What was written, and where: `path` is relative to the outbox folder."""

    model_config = ConfigDict(frozen=True)

    id: str
    to: str
    subject: str
    status: Literal["sent", "draft"]
    path: str


def build_outbox_server(folder: Path) -> MCPServer:
    """A server whose `send` writes FOLDER/sent/ID.json and whose `draft` writes FOLDER/drafts/ID.json."""
    root = writable_folder("outbox", folder)
    for kind in ("sent", "drafts"):
        writable_folder("outbox", root / kind)
    server = MCPServer(
        "outbox",
        instructions="Messages as files: draft keeps one for a person to finish, send hands it over for delivery.",
        log_level="WARNING",
    )

    @server.tool(annotations=_DRAFT)
    def draft(to: To, subject: Subject, body: Body) -> Receipt:
        """Keep a message as a draft for a person to finish. Nothing is delivered. Returns its id."""
        return _write(root, "draft", to=to, subject=subject, body=body)

    @server.tool(annotations=_SEND)
    def send(to: To, subject: Subject, body: Body) -> Receipt:
        """Hand a message over for delivery. Each call makes one more message. Returns its id."""
        return _write(root, "sent", to=to, subject=subject, body=body)

    return server


def _write(root: Path, status: Literal["sent", "draft"], *, to: str, subject: str, body: str) -> Receipt:
    _check("to", to, limit=LINE_MAX)
    _check("subject", subject, limit=LINE_MAX)
    _check("body", body, limit=BODY_MAX)
    id_ = uuid.uuid4().hex
    path = root / ("sent" if status == "sent" else "drafts") / f"{id_}.json"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    message = {"id": id_, "status": status, "created_at": now, "to": to, "subject": subject, "body": body}
    try:
        _write_whole(path, json.dumps(message, ensure_ascii=False, indent=2) + "\n")
    except OSError as error:
        raise ToolError(f"nothing was written: {path.parent} cannot be written to ({error.strerror})") from error
    return Receipt(id=id_, to=to, subject=subject, status=status, path=path.relative_to(root).as_posix())


def _check(name: str, text: str, *, limit: int) -> None:
    if not text.strip():
        raise ToolError(f"nothing was written: '{name}' is empty; give it a text")
    if len(text) > limit:
        raise ToolError(f"nothing was written: '{name}' has {len(text):,} characters; at most {limit:,} are taken")
    # A line break in a mail's head would add headers, such as one more recipient.
    if name != "body" and not text.isprintable():
        raise ToolError(f"nothing was written: '{name}' must be one line without control characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError(f"nothing was written: '{name}' holds half a character (a lone surrogate); send valid Unicode")


def _write_whole(path: Path, text: str) -> None:
    """The file appears under its name only once all of it is on the disk."""
    partial = path.with_suffix(".partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # Windows can't open a folder; there the rename is written through without.
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
