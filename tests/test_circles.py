"""Streams that go round in circles are told from those that only say much."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downstream.models.circles import Circles, goes_round

PARTS = st.text(min_size=1, max_size=60)
TEXTS = st.text(max_size=400)
LONG = 3_000


def pieces_until_caught(text: str, size: int) -> int | None:
    """After how many characters a stream in pieces of that size is caught; None if it never is."""
    circles = Circles()
    for start in range(0, len(text), size):
        if circles.goes_round_with(text[start : start + size]):
            return start + size
    return None


@given(before=TEXTS, part=PARTS, size=st.integers(1, 100))
def test_a_short_part_again_and_again_is_caught_in_good_time(before: str, part: str, size: int) -> None:
    caught = pieces_until_caught(before + part * (LONG // len(part) + 1), size)
    assert caught is not None
    assert caught <= len(before) + 1_200 + 300 + 2 * size


@given(seed=st.integers(), size=st.integers(1, 100))
def test_text_without_a_pattern_is_never_caught(seed: int, size: int) -> None:
    text = "".join(Random(seed).choices("abcdefgh ,.\n", k=LONG))
    assert pieces_until_caught(text, size) is None


@given(st.text(alphabet=" \t\n\r", min_size=1_200))
def test_white_space_alone_is_caught_whatever_its_pattern(text: str) -> None:
    assert goes_round(text)


ROWS = "".join(f"| {number:4} | 0 | 0 | 0 | 0 | 0 | 0 |\n" for number in range(100))
MEANT = {
    "a plan": '{"steps": [{"id": "look", "kind": "call", "tool": "notes.search", "arguments": {}}]}' * 3,
    "a matrix of zeros": "[0, 0, 0, 0, 0, 0, 0, 0],\n" * 40,
    "base64 of nothing": f'{{"content": "{"A" * 1_100}=="}}',
    "a numbered table of zeros": ROWS,
    "a deep indentation": "{\n" + "".join(f"{' ' * depth}[\n" for depth in range(200)) + " " * 1_000 + "]",
    "a line across": "-" * 1_000 + "\nand what stands below it",
    "a long paragraph twice": "So it was said, and it was said at some length, by all who were there. " * 2,
    "nothing": "",
}


@pytest.mark.parametrize("text", MEANT.values(), ids=MEANT.keys())
@pytest.mark.parametrize("size", [1, 7, 2_000])
def test_what_may_be_meant_is_left_alone(text: str, size: int) -> None:
    assert pieces_until_caught(text, size) is None
