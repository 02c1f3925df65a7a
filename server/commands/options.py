"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

ApproveMode: TypeAlias = Literal["ask", "deny", "all"]

Config: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Use this settings file and no other.")
]
NoConfig: TypeAlias = Annotated[Path | None, typer.Option("--config", metavar="FILE", hidden=True)]
"""For commands that read no settings of the user: scripts may put `--config` after every command."""
Approve: TypeAlias = Annotated[
    ApproveMode,
    typer.Option(
        "--approve",
        help="What to do when an action waits: ask at this terminal (elsewhere stop, exit code 5), deny each, or "
        "approve all of class write and ask for the rest.",
    ),
]
RunId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="A run, r_….", show_default=False)]
ActionId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="An action, a_….", show_default=False)]
Output: TypeAlias = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file instead of stdout.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
