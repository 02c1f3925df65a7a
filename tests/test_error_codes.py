"""What the shell is told of a command that could not begin: how it was called, or what it found here."""

import socket

import pytest
from command_line import called

from downstream.auth.login import LoginFailed
from journal.errors import SteprelayError, StoreError, UnknownId
from server.host.kept_secret import NotKept
from server.page.approver import BadApprover
from server.terminal.exit_codes import ExitCode, code_of_error

ERRORS = {
    "an id that nobody knows": (UnknownId("run", "r_1"), ExitCode.USAGE),
    "a PIN that is none": (BadApprover("too short"), ExitCode.USAGE),
    "a store that cannot be used": (StoreError("the disk is full"), ExitCode.SETTINGS),
    "a state folder that keeps nothing": (NotKept("the token", PermissionError(13, "no", "/x")), ExitCode.SETTINGS),
    "what was tried and failed": (LoginFailed("shop", "no answer"), ExitCode.FAILED),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_has_the_code_of_what_is_to_be_mended(case: str) -> None:
    error: SteprelayError
    error, code = ERRORS[case]
    assert code_of_error(error) == code


def test_a_port_that_is_taken_is_a_matter_of_how_serve_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert called("serve", "--http", f"127.0.0.1:{port}", "--no-auth") == 2
    assert "cannot be served" in capsys.readouterr().err
