"""`steprelay tool-server`: the bundled tool servers, each of use by itself with any MCP client."""

from pathlib import Path
from typing import Annotated

import typer

from server.terminal.exit_codes import UsageProblem

from .options import NoConfig

Folder = Annotated[Path, typer.Argument(metavar="DIR", show_default=False)]


def notes(folder: Folder, config: NoConfig = None) -> None:
    """Search and read the text files below DIR (stdio)."""
    from server.tool_servers import FolderError, build_notes_server

    try:
        server = build_notes_server(folder)
    except FolderError as error:
        raise UsageProblem(str(error)) from error
    server.run()


def code(config: NoConfig = None) -> None:
    """Run Python snippets in a sandbox (stdio)."""
    from server.tool_servers import build_code_server

    build_code_server().run()


def outbox(folder: Folder, config: NoConfig = None) -> None:
    """Keep drafts and sent messages as files in DIR (stdio)."""
    from server.tool_servers import FolderError, build_outbox_server

    try:
        server = build_outbox_server(folder)
    except FolderError as error:
        raise UsageProblem(str(error)) from error
    server.run()
