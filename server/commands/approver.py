"""`steprelay approver`: a PIN, and codes of an authenticator app, for decisions on the page."""

import os
from typing import Annotated

import typer

from server.terminal.exit_codes import UsageProblem


def init(
    totp: Annotated[
        bool, typer.Option("--totp", help="Also ask for a code of an authenticator app at each yes on the page.")
    ] = False,
) -> None:
    """Set a PIN for the page.

    From then on the PIN signs in there, and nothing else; sessions that were begun before end. It is kept as a hash, in
    a file that only you can read.
    """
    from server.page.approver import app_address, keep_approver, new_approver
    from server.terminal.asking import nobody_here

    if (why := nobody_here(os.environ)) is not None:
        raise UsageProblem(f"approver init needs a person at a terminal, and {why}")
    pin = typer.prompt("PIN", hide_input=True, confirmation_prompt=True)
    approver = new_approver(str(pin), with_codes=totp)
    path = keep_approver(approver)
    typer.echo(f"The PIN is kept, hashed, in {path}")
    if approver.seed is not None:
        typer.echo(f"Give this to your authenticator app; it is not shown again:\n  {app_address(approver.seed)}")
