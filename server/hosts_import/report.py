"""What `steprelay init` did, for people and for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from journal.outlet import Outlet
from journal.values import JsonObject

from .importing import Import
from .places import HostFile


@dataclass(frozen=True)
class Report:
    """An import and what became of it; `text` is the file as it is, or would be, written."""

    result: Import
    path: Path
    text: str | None
    """None where nothing changed."""
    is_dry: bool
    unset: tuple[str, ...]
    """Variables that are needed and not set here."""
    looked: Sequence[HostFile]
    setting: str
    """How a variable is set on this platform."""
    next: tuple[str, ...]
    """Commands to type now."""

    def lines(self) -> list[str]:
        """For people, without a character that a terminal would obey."""
        outlet = Outlet(self.result.secrets)
        return [outlet.text(_printable(line)) for line in self._lines()]

    def data(self) -> JsonObject:
        """For programs."""
        result = self.result
        data: JsonObject = {
            "version": 1,
            "settings": str(self.path),
            "written": self.text is not None and not self.is_dry,
            "files": [{**_source(file), "servers": count} for file, count in result.read],
            "problems": [{"path": str(each.path), "line": each.line, "text": each.text} for each in result.problems],
            "servers": [
                {
                    "name": each.name,
                    "from": _source(each.source),
                    "entry": each.entry,
                    "does": each.does,
                    "disabled": each.entry.get("disabled", False),
                    "notes": list(each.notes),
                }
                for each in result.taken
            ],
            "taken_once": result.once,
            "left_out": [
                {"name": each.name, "from": _source(each.source), "why": why} for each, why in result.left_out
            ],
            "secrets": result.hidden,
            "variables": [
                {"name": name, "used_in": places, "set": name not in self.unset}
                for name, places in result.needed.items()
            ],
            "next": list(self.next),
        }
        if self.is_dry:
            data["content"] = self.text
        cleaned: JsonObject = Outlet(result.secrets).json(data)
        return cleaned

    def _lines(self) -> Iterator[str]:
        result = self.result
        yield from self._found()
        for each in result.taken:
            off = " (disabled, as it was)" if each.entry.get("disabled") else ""
            yield f"+ {each.name}{off}: {each.does}"
            yield f"    from {each.source}"
            yield from (f"    {note}" for note in each.notes)
        yield from (f"= {line}" for line in result.once)
        yield from (f"- {each.name} ({each.source}) is left out: {why}" for each, why in result.left_out)
        yield from (f"! {line}" for line in result.hidden)
        yield self._ending()
        if self.unset:
            yield f"Set where steprelay is started, as in `{self.setting}`:"
            yield from (f"  {name}  ({', '.join(result.needed[name])})" for name in self.unset)
        if self.next:
            yield "Next:"
            yield from (f"  {command}" for command in self.next)

    def _found(self) -> Iterator[str]:
        for file, count in self.result.read:
            yield f"{file}: {count} {'server' if count == 1 else 'servers'}"
        if not self.result.read and not self.result.problems:
            yield "No file of a host is here; looked for:"
            yield from (f"  {file.path} ({file.host})" for file in self.looked)

    def _ending(self) -> str:
        count = len(self.result.taken)
        if self.text is None:
            return f"Nothing to add; {self.path} is as it was." if self.path.exists() else "Nothing to write."
        servers = f"{count} {'server' if count == 1 else 'servers'}"
        return f"{'Would write' if self.is_dry else 'Wrote'} {servers} to {self.path}."


def _source(file: HostFile) -> JsonObject:
    return {"host": file.host, "path": str(file.path), "project": str(file.project) if file.project else None}


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
