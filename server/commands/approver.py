"""`steprelay approver`: a PIN, and codes of an authenticator app, for decisions on the page."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import UsageProblem

from .options import NoConfig

if TYPE_CHECKING:
    from server.page.approver import Approver


def init(
    totp: Annotated[
        bool | None,
        typer.Option(
            "--totp/--no-totp",
            help="Also ask for a code of an authenticator app at each yes on the page. Left out: as it was.",
            show_default=False,
        ),
    ] = None,
    config: NoConfig = None,
) -> None:
    """Set a PIN for the page, or another one.

    From then on the PIN signs in there, and nothing else; sessions that were begun before end. It is kept as a hash, in
    a file that only you can read. Where there is a PIN, it is asked for first, with a code if there are codes.
    """
    from server.page.approver import app_address, changed_approver, keep_approver
    from server.terminal.asking import nobody_here

    if (why := nobody_here(os.environ)) is not None:
        raise UsageProblem(f"approver init needs a person at a terminal, and {why}")
    present = _present()
    pin = typer.prompt("PIN", hide_input=True, confirmation_prompt=True)
    approver = changed_approver(present, str(pin), with_codes=totp)
    path = keep_approver(approver)
    typer.echo(f"The PIN is kept, hashed, in {path}")
    if totp and approver.seed is not None:
        typer.echo(f"Give this to your authenticator app; it is not shown again:\n  {app_address(approver.seed)}")
    elif approver.seed is not None:
        typer.echo("Codes of your authenticator app are asked for as before (--no-totp ends that).")
    elif present is not None and present.seed is not None:
        typer.echo("Codes of an authenticator app are not asked for any more.")


def _present() -> "Approver | None":
    """Who approves by now, once it is clear that they sit here. Raises UsageProblem."""
    from server.page.approver import BadApprover, kept_approver

    try:
        present = kept_approver()
    except BadApprover as error:
        typer.echo(f"{error}: what was set up before is replaced.", err=True)
        return None
    if present is not None:
        pin = typer.prompt("Present PIN", hide_input=True)
        is_theirs = present.is_pin(str(pin))
        if present.seed is not None:
            code = typer.prompt("Present code of the authenticator app")
            is_theirs &= present.step_of(str(code), now=World().now()) is not None
        if not is_theirs:
            raise UsageProblem(
                "that is not what is set up, and nothing was changed; without it, delete approver.json, which lies in "
                "the state folder"
            )
    return present
