"""Names of tools as people and hosts write them, read into the one form `server.tool`."""

import re
import unicodedata
from fnmatch import fnmatchcase

from journal.errors import SteprelayError

_SEPARATOR = re.compile(r"[./]")
_HOST_PREFIX = "mcp__"


class ToolNameError(SteprelayError, ValueError):
    """Text that names no tool of a server."""


def normalise_server_name(text: str) -> str:
    """The name in `[a-z0-9-]`. Raises ToolNameError where nothing is left."""
    return _server_part(text, kept="")


def read_tool_name(text: str) -> str:
    """`server.tool` from `server.tool`, `server/tool`, `server__tool`, `mcp__server__tool` or `mcp__server`.

    Either part may hold the globs `*` and `?`; `*` alone is every tool. Raises ToolNameError.
    """
    text = text.strip()
    if text == "*":
        return "*.*"
    hosts = text.startswith(_HOST_PREFIX)
    server, tool = _split(text.removeprefix(_HOST_PREFIX), separator="__" if hosts else None)
    if hosts and not tool:
        tool = "*"
    if not server or not tool:
        raise ToolNameError(f"{text!r} names no tool; write server.tool, as in fs.read_file or fs.*")
    return f"{_server_part(server, kept='*?')}.{tool}"


def matches(glob: str, tool: str) -> bool:
    """Whether `server.tool` fits a glob in the form of `read_tool_name`, part by part and with case."""
    (server_glob, _, tool_glob), (server, _, name) = glob.partition("."), tool.partition(".")
    return fits(server_glob, server) and fits(tool_glob, name)


def reaches(glob: str, tool: str) -> bool:
    """As `matches`, for what forbids: the glob of the server may also stand for the front of a tool's own long name.

    So `*.delete_*` reaches `svc.admin.delete_user`, and `svc.admin/delete_user` and `svc.admin__delete_user` too.
    """
    return fits(glob, tool) or fits(_dotted(glob), _dotted(tool))


def fits(glob: str, name: str) -> bool:
    """Whether one name, without its server, fits a glob of `*` and `?`, both in NFC; brackets mean themselves."""
    return fnmatchcase(_nfc(name), _nfc(glob).replace("[", "[[]"))


def covers(wide: str, narrow: str) -> bool:
    """Whether `wide` reaches every tool that the glob `narrow` reaches, as far as their letters show it."""
    return _spans(_nfc(wide), _nfc(narrow)) and _spans(_dotted(_nfc(wide)), _dotted(_nfc(narrow)))


def has_glob(text: str) -> bool:
    """Whether the text stands for more than one name."""
    return "*" in text or "?" in text


def _spans(wide: str, narrow: str) -> bool:
    # A `*` of the narrow one stands for any number of letters, so no `?` can stand for it.
    signs = {"*": ".*", "?": "[^*]"}
    return re.fullmatch("".join(signs.get(each) or re.escape(each) for each in wide), narrow, re.DOTALL) is not None


def _dotted(name: str) -> str:
    return name.replace("__", ".").replace("/", ".")


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _split(text: str, *, separator: str | None) -> tuple[str, str]:
    if separator is None:
        found = _SEPARATOR.search(text)
        separator = found.group() if found else "__"
    server, _, tool = text.partition(separator)
    return server, tool


def _server_part(text: str, *, kept: str) -> str:
    plain = unicodedata.normalize("NFKC", text).lower()
    name = re.sub(rf"[^a-z0-9{re.escape(kept)}]+", "-", plain).strip("-")
    if not name:
        raise ToolNameError(f"server name {text!r} has no letter or digit; rename it")
    return name
