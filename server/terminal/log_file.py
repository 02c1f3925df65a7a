"""Where a process logs: everything into a rotating file in the state folder, warnings to stderr, nothing to stdout."""

import logging
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

from downstream.gate.prompt_text import escaped
from journal.outlet import Outlet
from journal.settings import state_folder

_LARGEST = 2 * 1024 * 1024
_KEPT = 3
_LAYOUT = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def log_path() -> Path:
    return state_folder() / "steprelay.log"


def start_logging(outlet: Outlet) -> None:
    """Log from now on, what the outlet knows as secrets taken out; called again, with another outlet."""
    root = logging.getLogger()
    ours = [handler for handler in root.handlers if isinstance(handler, _File | _Stderr)]
    for handler in ours or _added(root):
        short = isinstance(handler, _Stderr)
        handler.setFormatter(_Line(outlet, "steprelay: %(message)s" if short else _LAYOUT, tracebacks=not short))


def _added(root: logging.Logger) -> list[logging.Handler]:
    warnings = _Stderr()
    warnings.setLevel(logging.WARNING)
    handlers: list[logging.Handler] = [warnings]
    # Without a state folder there is no file; whoever needs the folder for more will say so.
    with suppress(OSError):
        handlers.append(_File(log_path(), maxBytes=_LARGEST, backupCount=_KEPT, encoding="utf-8", delay=True))
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    for chatty in ("httpx", "httpx2", "httpcore", "LiteLLM", "mcp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # What goes wrong in a login is told by us; here, answers with tokens in them would be quoted.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    return handlers


class _File(RotatingFileHandler):
    """Ours among the handlers. A log that cannot be written must not stop the work."""

    def handleError(self, record: logging.LogRecord) -> None:
        return


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what stderr is at that moment: a live display puts something else there for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Line(logging.Formatter):
    """The event and its fields, escaped; in the file also a traceback where there is one."""

    def __init__(self, outlet: Outlet, layout: str, *, tracebacks: bool) -> None:
        super().__init__(layout)
        self._outlet = outlet
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{name}={value}" for name, value in vars(record).items() if name not in _USUAL]
        head, *rest = super().format(record).split("\n")
        lines = [" ".join([head, *fields]), *(rest if self._tracebacks else ())]
        # Logs are read at terminals, and a field may be what a server wrote.
        return self._outlet.text("\n".join(escaped(self._outlet.text(line)) for line in lines))
