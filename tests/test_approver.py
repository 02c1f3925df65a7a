"""`steprelay approver init`: setting a PIN takes a person, and changing it takes what is set up already."""

import re
import stat
from pathlib import Path
from typing import Any

import pytest
from command_line import Terminal, open_terminal

from journal.settings import state_folder
from journal.world import World
from server.page.approver import (
    Approver,
    BadApprover,
    changed_approver,
    keep_approver,
    kept_approver,
    new_approver,
    totp,
)

PIN, OTHER = "correct horse", "battery staple"
e2e = pytest.mark.e2e


def answer(terminal: Terminal, **lines: str) -> None:
    """Type each line once its prompt is there."""
    prompts = {"pin": "Present PIN: ", "code": "authenticator app: ", "new": "PIN: ", "again": "confirmation: "}
    for name, line in lines.items():
        terminal.expect(prompts[name])
        terminal.send(f"{line}\n")


def code_now(approver: Approver) -> str:
    assert approver.seed is not None
    return totp(approver.seed, int(World().now() // 30))


def there() -> Approver:
    approver = kept_approver()
    assert approver is not None
    return approver


@e2e
def test_approver_init_keeps_a_hash_of_the_pin_and_shows_the_seed_once(tmp_path: Path) -> None:
    with open_terminal("approver", "init", "--totp", cwd=tmp_path) as terminal:
        answer(terminal, new=PIN, again=PIN)
        terminal.expect("otpauth://totp/steprelay?secret=")
        assert terminal.end() == 0
    path = state_folder() / "approver.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PIN not in terminal.seen + path.read_text()


@e2e
def test_another_pin_keeps_the_codes_and_ends_older_sessions(tmp_path: Path) -> None:
    old = new_approver(PIN, with_codes=True)
    keep_approver(old)
    with open_terminal("approver", "init", cwd=tmp_path) as terminal:
        answer(terminal, pin=PIN, code=code_now(old), new=OTHER, again=OTHER)
        assert terminal.end() == 0, terminal.seen
    new = there()
    assert (new.is_pin(OTHER), new.is_pin(PIN), new.seed) == (True, False, old.seed)
    assert new.mark != old.mark
    assert "are asked for as before" in terminal.seen
    assert re.search("otpauth|secret", terminal.seen) is None


@e2e
@pytest.mark.parametrize(
    ("option", "told"),
    [("--no-totp", "are not asked for any more"), ("--totp", "Give this to your authenticator app")],
)
def test_codes_end_or_are_made_anew_only_where_that_is_said(tmp_path: Path, option: str, told: str) -> None:
    old = new_approver(PIN, with_codes=True)
    keep_approver(old)
    with open_terminal("approver", "init", option, cwd=tmp_path) as terminal:
        answer(terminal, pin=PIN, code=code_now(old), new=PIN, again=PIN)
        assert terminal.end() == 0, terminal.seen
    assert told in terminal.seen
    assert (there().seed is None, there().seed == old.seed) == (option == "--no-totp", False)


@e2e
def test_where_no_codes_are_set_up_none_is_asked_for(tmp_path: Path) -> None:
    keep_approver(new_approver(PIN, with_codes=False))
    with open_terminal("approver", "init", cwd=tmp_path) as terminal:
        answer(terminal, pin=PIN, new=OTHER, again=OTHER)
        assert terminal.end() == 0, terminal.seen
    assert (there().is_pin(OTHER), there().seed) == (True, None)
    assert "code" not in terminal.seen.lower()


@e2e
@pytest.mark.parametrize("wrong", [{"pin": OTHER}, {"code": "none"}], ids=["PIN", "code"])
def test_who_does_not_know_what_is_set_up_changes_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    old = new_approver(PIN, with_codes=True)
    path = keep_approver(old)
    before = path.read_text()
    with open_terminal("approver", "init", "--no-totp", cwd=tmp_path) as terminal:
        answer(terminal, **{"pin": PIN, "code": code_now(old)} | wrong)
        assert terminal.end() == 2
    assert "nothing was changed; without it, delete approver.json" in terminal.seen
    assert path.read_text() == before


@e2e
def test_what_cannot_be_read_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    path = keep_approver(new_approver(PIN, with_codes=False))
    path.write_text("{")
    with open_terminal("approver", "init", cwd=tmp_path) as terminal:
        terminal.expect("what was set up before is replaced")
        answer(terminal, new=OTHER, again=OTHER)
        assert terminal.end() == 0, terminal.seen
    assert (there().is_pin(OTHER), there().seed) == (True, None)


def test_a_changed_approver_has_the_codes_that_were_there_unless_something_else_is_said() -> None:
    old = new_approver(PIN, with_codes=True)
    assert changed_approver(old, OTHER, with_codes=None).seed == old.seed
    assert changed_approver(old, OTHER, with_codes=False).seed is None
    assert changed_approver(old, OTHER, with_codes=True).seed not in (None, old.seed)
    assert [changed_approver(None, OTHER, with_codes=wanted).seed is None for wanted in (None, False, True)] == [
        True,
        True,
        False,
    ]
    with pytest.raises(BadApprover, match="6 characters or more"):
        changed_approver(old, "12", with_codes=None)
