"""What a tool answered, in our own form: a value for other steps, a text for models, and bytes to be kept aside."""

import base64
import binascii
import json
from collections.abc import Sequence
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
from journal.values import Json, JsonObject, Label

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

IN_SESSION = "steprelay/session"
"""Our mark, in `_meta`, that names what the server may hold between calls; a server's own marks are taken off."""


@dataclass(frozen=True)
class Normalised:
    """`value_data` is the structured content, else the text as it came; `text` is cleaned for models.

    `empty` marks a result in which there is nothing; `structured` says that `text` is JSON; `did_run` that the call had
    its effect though its answer is no use; `session` names what its server may hold between calls.
    """

    ok: bool
    value_data: Json
    text: str
    empty: bool
    blobs: tuple[Blob, ...] = ()
    structured: bool = False
    did_run: bool = False
    session: str | None = None
    links: tuple[str, ...] = ()
    """The addresses of resources that it only names."""


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
    if data is not None and not (text.strip() and _say_the_same(texts, data)):
        as_json = json.dumps(clean_json(_without_bytes(data, blobs)), ensure_ascii=False)
        shown = f"{shown}\n\nAs data: {as_json}" if text.strip() else as_json
    return Normalised(
        ok=not result.is_error,
        value_data=text if data is None else data,
        text=shown,
        empty=not blobs and (_is_hollow(data) if data is not None else text.strip() in _HOLLOW_TEXTS),
        blobs=tuple(blobs),
        structured=data is not None and not text.strip(),
        did_run=bool((result.meta or {}).get(DID_RUN)),
        session=(result.meta or {}).get(IN_SESSION),
        links=tuple(clean_text(block.uri) for block in result.content if isinstance(block, ResourceLink)),
    )


@dataclass(frozen=True)
class Kept:
    """`text` is for models, with a handle for what is not in it; `value_data` as in `Normalised`, and where that is a
    text, with the handles of what is none below it. What could not be kept is named with the reason and has no id."""

    text: str
    value_data: Json
    artifacts: tuple[str, ...]


async def keep(journal: RunJournal, normalised: Normalised, *, step: str, call: str, label: Label) -> Kept:
    """Store as artifacts what is too large or no text."""
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
    named = [_named(blob, await add(blob.media_type, blob.content)) for blob in normalised.blobs]
    data = normalised.value_data
    return Kept(_lines(text, named), _lines(data, named) if isinstance(data, str) else data, tuple(ids))


def _lines(text: str, named: Sequence[str]) -> str:
    return "\n".join([text, *named] if text.strip() else named)


def _read(block: ContentBlock) -> str | Blob:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return _blob(block.type, block.mime_type, block.data)
    if isinstance(block, ResourceLink):
        about = [block.title or block.name, block.mime_type, block.description]
        return f"[link to {block.uri}, not read: {', '.join(part for part in about if part)}]"
    what, inner = f"resource {block.resource.uri}", block.resource
    if isinstance(inner, TextResourceContents):
        return f"[{what}]\n{inner.text}"
    return _blob(what, inner.mime_type or "application/octet-stream", inner.blob)


def _blob(what: str, media_type: str, encoded: str) -> str | Blob:
    try:
        return Blob(clean_text(what)[:200], clean_text(media_type)[:100], base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return f"[{what} that is not valid base64]"


def _without_bytes(data: Json, blobs: Sequence[Blob]) -> Json:
    """The data, where a server repeats in it the bytes of blobs, without those: no model can read them."""
    marks = {base64.b64encode(blob.content).decode(): f"[{blob.what}, kept aside]" for blob in blobs if blob.content}

    def marked(data: Json) -> Json:
        if is_object(data):
            return {key: marked(item) for key, item in data.items()}
        if is_array(data):
            return [marked(item) for item in data]
        return marks.get(data, data) if isinstance(data, str) else data

    return marked(data) if marks else data


def _say_the_same(texts: Sequence[str], data: JsonObject) -> bool:
    """Whether the texts only repeat the data, or its one member, for clients that read no data."""
    (only,) = data.values() if len(data) == 1 else (data,)
    items = _flat(only)
    one_by_one = len(texts) == len(items) and all(map(_says, texts, items))
    return one_by_one or _says("\n".join(texts), data) or _says("\n".join(texts), only)


def _says(text: str, data: Json) -> bool:
    if isinstance(data, str) and text.strip() == data.strip():
        return True
    try:
        return bool(json.loads(text) == data)
    except (ValueError, RecursionError):
        return False


def _flat(data: Json) -> list[Json]:
    return [each for item in data for each in _flat(item)] if is_array(data) else [data]


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
