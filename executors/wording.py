"""Texts for models: prompts from files, and how material from elsewhere is quoted and wrapped as data."""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from downstream.servers.names import clean_json, clean_text
from journal.values import Json

_FOLDER = Path(__file__).parent / "prompts"
_TAG = re.compile(r"<(?=\s*/?\s*data\b)", re.IGNORECASE)


@dataclass(frozen=True)
class PromptFile:
    """A prompt as it stands in its file. `version` is NAME@ and the first 8 hex digits of the file's SHA-256."""

    text: str
    version: str


@cache
def prompt_file(folder: Path, name: str) -> PromptFile:
    """The prompt in FOLDER/NAME.md."""
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    return PromptFile(text.strip(), f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:8]}")


def prompt(name: str, **values: str) -> str:
    """The text of `prompts/NAME.md` with each `{{value}}` filled in."""
    text = prompt_file(_FOLDER, name).text
    for key, value in values.items():
        text = text.replace(f"{{{{{key}}}}}", value)
    return text


def versions(*names: str) -> str:
    """The versions of these prompts, as the events of a request that was made from them tell."""
    return "+".join(prompt_file(_FOLDER, name).version for name in names)


def wrapped(text: str, *, origin: str) -> str:
    """Material that is no instruction: between tags that it cannot close, marked with where it came from."""
    origin = re.sub(r'["<>\s]+', " ", origin)
    return f'<data from="{origin}">\n{_TAG.sub("&lt;", text)}\n</data>'


def shown(data: Json) -> str:
    """Data as a model reads it, without what nobody sees: text as it is, all else as JSON."""
    return clean_text(data) if isinstance(data, str) else json.dumps(clean_json(data), ensure_ascii=False)


def quoted(text: str, limit: int = 200) -> str:
    """Foreign text inside a sentence of ours: on one line, escaped, in quotation marks and cut."""
    return json.dumps(cut(text.strip(), limit), ensure_ascii=False)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; an ellipsis marks what is missing."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
