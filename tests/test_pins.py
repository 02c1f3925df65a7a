"""The difference between two definitions, as a person is shown it."""

import pytest

from downstream.servers.pins import difference_lines

MANY = [f"line {number}" for number in range(2_001)]


def test_a_difference_shows_what_went_what_came_and_a_little_around_it() -> None:
    assert difference_lines(list("abcdefgh"), list("abcXefgh")) == ["…", " b", " c", "-d", "+X", " e", " f"]
    assert difference_lines(["a"], ["a"]) == []


BETWEEN = ["…", " line 3", " line 4", "-line 5", "-line 6", "+new", "+line 6", "+newer", " line 7", " line 8"]


@pytest.mark.parametrize(
    ("now", "shown"),
    [
        (MANY, []),
        ([*MANY[:5], "new", "line 6", "newer", *MANY[7:]], BETWEEN),
        (["new", *MANY], ["…", "+new", " line 0", " line 1"]),
        (MANY[:-1], ["…", " line 1998", " line 1999", "-line 2000"]),
        (["line 0", "line 0", *MANY[1:]], ["…", " line 0", "+line 0", " line 1", " line 2"]),
        ([], ["…", *(f"-{line}" for line in MANY)]),
    ],
    ids=["nothing", "between", "before", "after", "twice", "all"],
)
def test_of_two_long_texts_all_between_their_common_ends_is_shown(now: list[str], shown: list[str]) -> None:
    assert difference_lines(MANY, now) == shown
