"""The bundled tool servers: a folder of notes, a code sandbox and an outbox. Each works with any MCP client."""

from .code import build_code_server
from .folders import FolderError
from .notes import build_notes_server
from .outbox import build_outbox_server

__all__ = ["FolderError", "build_code_server", "build_notes_server", "build_outbox_server"]
