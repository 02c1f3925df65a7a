"""The log: everything in a file of the state folder, warnings on stderr, nothing on stdout, no secret anywhere."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from journal.outlet import Outlet
from server.terminal.log_file import log_path, start_logging


@contextmanager
def own_root() -> Generator[None]:
    """The root logger as it was before, once the block ends."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        for handler in set(root.handlers) - set(handlers):
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)


def test_warnings_go_to_stderr_in_one_line_and_all_goes_to_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("test_log_file")
    with own_root():
        start_logging(Outlet())
        start_logging(Outlet([("TOKEN", "hunter2-hunter2")]))
        log.info("step_done", extra={"step": "a"})
        try:
            raise ValueError("the token is hunter2-hunter2")
        except ValueError:
            log.exception("drive_failed", extra={"run": "r_1"})
    printed, written = capsys.readouterr(), log_path().read_text()
    assert (printed.out, printed.err) == ("", "steprelay: drive_failed run=r_1\n")
    assert "INFO test_log_file step_done step=a\n" in written
    assert "ValueError: the token is [secret:TOKEN]" in written
    assert written.count("drive_failed") == 1
    assert "hunter2" not in written


def test_what_a_server_wrote_is_logged_escaped_and_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with own_root():
        start_logging(Outlet())
        logging.getLogger("test_log_file").warning("server_stderr", extra={"line": "a\x1b[31m\u202eb\nforged"})
    for text in (capsys.readouterr().err, log_path().read_text()):
        assert "server_stderr line=a\\u001b[31m\\u202eb\\nforged\n" in text


def test_a_log_that_cannot_be_written_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with own_root():
        start_logging(Outlet())
        log_path().mkdir()
        logging.getLogger("test_log_file").info("anything")
    assert capsys.readouterr().err == ""
