"""What a tool answered, in our own form: a value for other steps, a text for models, and bytes to be kept aside."""

import base64
import binascii
import json
from dataclasses import dataclass

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from downstream.json_shape import is_array, is_object
from journal.artifacts import Artifact, ArtifactNotKept, NewArtifact
from journal.run_journal import RunJournal
from journal.values import Json, Label

from .names import clean_json, clean_text

SHOWN_CHARACTERS = 8000
"""Longer texts are kept whole as an artifact; models see head, tail and a handle."""

_HEAD, _TAIL = 4000, 2000
_NOT_KEPT = "its whole result could not be kept"
_HOLLOW_TEXTS = ("", "[]", "{}", "null", '""')


@dataclass(frozen=True)
class Blob:
    """Bytes that are no text; `what` is `image`, `audio` or `resource`, with its address where it has one."""

    what: str
    media_type: str
    content: bytes


DID_RUN = "steprelay/did_run"
"""Our mark, in `_meta`, on an answer that the connection had to make up for a call that ran."""


@dataclass(frozen=True)
class Normalised:
    """`value_data` is the structured content, else the text as it came; `text` is cleaned for models.

    `empty` marks a result in which there is nothing; `structured` says that `text` is JSON; `did_run` that the call had
    its effect though its answer is no use.
    """

    ok: bool
    value_data: Json
    text: str
    empty: bool
    blobs: tuple[Blob, ...] = ()
    structured: bool = False
    did_run: bool = False


def normalise(result: CallToolResult) -> Normalised:
    """Read an answer; never fails on what a server put into it."""
    texts: list[str] = []
    blobs: list[Blob] = []
    for block in result.content:
        read = _read(block)
        if isinstance(read, Blob):
            blobs.append(read)
        else:
            texts.append(read)
    text, data = "\n".join(texts), result.structured_content
    shown = clean_text(text)
    if data is not None:
        as_json = json.dumps(clean_json(data), ensure_ascii=False)
        if not text.strip():
            shown = as_json
        elif not _says_the_same(text, data):
            shown = f"{shown}\n\nAs data: {as_json}"
    return Normalised(
        ok=not result.is_error,
        value_data=text if data is None else data,
        text=shown,
        empty=not blobs and (_is_hollow(data) if data is not None else text.strip() in _HOLLOW_TEXTS),
        blobs=tuple(blobs),
        structured=data is not None and not text.strip(),
        did_run=bool((result.meta or {}).get(DID_RUN)),
    )


async def keep(
    journal: RunJournal, normalised: Normalised, *, step: str, call: str, label: Label
) -> tuple[str, tuple[str, ...]]:
    """Store as artifacts what is too large or no text; gives the text for models, with handles, and their ids.

    What could not be kept is shown in part, or named, with the reason; it has no id.
    """
    text, ids = normalised.text, list[str]()

    async def add(media_type: str, content: bytes) -> Artifact | ArtifactNotKept:
        try:
            kept = await journal.artifacts.add(journal.run.id, NewArtifact(step, call, media_type, content, label))
        except ArtifactNotKept as problem:
            return problem
        ids.append(kept.id)
        return kept

    if len(text) > SHOWN_CHARACTERS:
        media_type = "application/json" if normalised.structured else "text/plain"
        text = _head_and_tail(text, await add(media_type, text.encode(errors="replace")))
    lines = [text] if text.strip() else []
    for blob in normalised.blobs:
        lines.append(_named(blob, await add(blob.media_type, blob.content)))
    return "\n".join(lines), tuple(ids)


def _read(block: ContentBlock) -> str | Blob:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return _blob(block.type, block.mime_type, block.data)
    if isinstance(block, ResourceLink):
        about = [block.title or block.name, block.mime_type, block.description]
        return f"[link to {block.uri}: {', '.join(part for part in about if part)}]"
    what, inner = f"resource {block.resource.uri}", block.resource
    if isinstance(inner, TextResourceContents):
        return f"[{what}]\n{inner.text}"
    return _blob(what, inner.mime_type or "application/octet-stream", inner.blob)


def _blob(what: str, media_type: str, encoded: str) -> str | Blob:
    try:
        return Blob(clean_text(what)[:200], clean_text(media_type)[:100], base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return f"[{what} that is not valid base64]"


def _says_the_same(text: str, data: Json) -> bool:
    """Whether a text only repeats the data, as the SDK's servers do for clients that read no data."""
    if is_object(data) and set(data) == {"result"}:
        return True
    try:
        return bool(json.loads(text) == data)
    except ValueError:
        return False


def _is_hollow(data: Json) -> bool:
    if is_object(data):
        return all(_is_hollow(item) for item in data.values())
    if is_array(data):
        return all(_is_hollow(item) for item in data)
    return data is None or (isinstance(data, str) and not data.strip())


def _head_and_tail(text: str, kept: Artifact | ArtifactNotKept) -> str:
    left = len(text) - _HEAD - _TAIL
    if isinstance(kept, ArtifactNotKept):
        about = f"{len(text):,} characters, of which this is a part: the call ran, but {_NOT_KEPT}: {kept}"
    else:
        about = (
            f"{len(text):,} characters, kept whole as {kept.id}; read_artifact reads a range, searches or takes a JSON"
            f' path, and {{"$artifact": "{kept.id}"}} passes it on as an argument'
        )
    return f"[{about}]\n{text[:_HEAD]}\n[… {left:,} characters left out …]\n{text[-_TAIL:]}"


def _named(blob: Blob, kept: Artifact | ArtifactNotKept) -> str:
    about = f"{blob.what}, {blob.media_type}, {len(blob.content):,} bytes"
    if isinstance(kept, ArtifactNotKept):
        return f"[{about}: the call ran, but {_NOT_KEPT}: {kept}]"
    return f"[{about}, kept as {kept.id}]"
