"""A path is in a folder only if every program that opens it ends there; a deny holds if one might."""

import os
from pathlib import Path

import pytest
from gate_case import Server, call, open_runs, tool
from hypothesis import given, settings
from hypothesis import strategies as st

from downstream.door import Refused
from downstream.gate.matchers import holds
from downstream.policy_settings import Matcher
from journal.values import Json


def under(folder: Path | str, path: Json) -> bool | None:
    return holds(Matcher(path_under=str(folder)), path, of="all")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """`secret/key` and `other/deep/note`, with links among them."""
    base = tmp_path.resolve()
    (base / "secret").mkdir()
    (base / "other/deep").mkdir(parents=True)
    (base / "secret/key").write_text("key")
    (base / "other/deep/note").write_text("note")
    (base / "link").symlink_to(base / "other/deep")
    (base / "back").symlink_to("secret")
    (base / "other/up").symlink_to("../..")
    (base / "other/own").symlink_to("/proc/self/cwd")
    (base / "loop").symlink_to("loop")
    return base


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("secret/key", True),
        ("secret", True),
        ("secret/new", True),
        ("back/key", True),
        ("back/../other/deep/note", False),
        ("secret2/key", False),
        ("other/deep/note", False),
        ("link/../secret/key", None),
        ("secret/../link/note", False),
        ("other/own/key", None),
        ("loop/key", None),
        ("other/%2e%2e/secret/key", None),
        ("s%65cret/key", None),
        ("other\\..\\secret\\key", None),
        ("x%5C..%5Csecret/key", None),
        ("other/100%25", False),
        ("SECRET/key", None),
        ("secret./key", None),
        ("secret /key", None),
        ("\uff53ecret/key", None),
        ("se\u200bcret/key", None),
        ("secret%00/key", None),
        ("secret/\ud800", None),
        ("secret/" + "a/../" * 250 + "key", None),
    ],
)
def test_a_path_that_programs_may_follow_to_different_places_cannot_be_told(
    tree: Path, path: str, expected: bool | None
) -> None:
    assert under(tree / "secret", f"{tree}/{path}") is expected


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/cwd/key",
        "/proc/self/root/etc/key",
        "/proc/thread-self/cwd/key",
        "/proc/1/root/key",
        "//proc/self/cwd/key",
        "/proc/../proc/self/fd/3",
        "/proc/mounts",
        "/dev/fd/3",
        "/dev/fd/../../etc/key",
        "/dev/stdin",
        "/.vol/1/2",
        "secret/key",
        "~/secret/key",
        "file:///secret/key",
        "",
        7,
        [["/secret/key"]],
    ],
)
def test_a_path_that_each_process_has_its_own_of_or_that_is_not_absolute_cannot_be_told(path: Json) -> None:
    assert under("/secret", path) is None
    assert under("/", path) is None


def test_a_folder_is_known_by_another_name_too(tree: Path) -> None:
    os.link(tree / "secret/key", tree / "other/same")
    assert under(tree / "secret/key", f"{tree}/other/same") is None
    assert under(tree / "secret/gone", f"{tree}/other/same") is False


@pytest.mark.parametrize("path", ["/proc/self/cwd/key", "{base}/link/../secret/key"])
async def test_a_denied_file_is_not_sent_for_by_a_way_around(tree: Path, path: str) -> None:
    policy = {"rules": [{"deny": "fs.read", "when": {"/path": {"path_under": str(tree / "secret")}}}]}
    server = Server()
    async with open_runs(tree) as runs:
        door = server.door(tool("fs.read", "read", ["path"]), policy=policy)
        end = await door(await runs.drive(), call("fs.read", {"path": path.format(base=tree)}))
    assert isinstance(end, Refused)
    assert server.sent == []


NAMES = st.sampled_from(["secret", "key", "secret/key", "other", "deep/note", "link", "back", "up", "loop", "..", "."])


def test_whatever_file_is_opened_by_either_reading_a_deny_fits_and_an_allow_fits_no_other(tree: Path) -> None:
    inside = [os.stat(tree / "secret"), os.stat(tree / "secret/key")]

    def opened(path: str) -> bool | None:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return any(os.path.samestat(found, each) for each in inside)

    @given(st.lists(NAMES, max_size=5))
    @settings(max_examples=1000)
    def check(names: list[str]) -> None:
        path = "/".join([str(tree), *names])
        answer = under(tree / "secret", path)
        ends = {opened(path), opened(os.path.normpath(path))}
        assert answer is not False or True not in ends
        assert answer is not True or False not in ends

    check()
