"""Labels: where data came from, kept through every joining, the worst where nobody knows."""

import pytest

from journal.values import CLEAN, WORST, Label, Value, has_private, is_clean, join


def test_a_value_without_a_label_has_the_worst() -> None:
    assert Value(1, frozenset()).label == WORST
    assert Value.from_json({"data": 1}) == Value(1, WORST)
    assert join([]) == WORST


def test_a_value_comes_back_from_the_journal_with_its_label() -> None:
    value = Value({"a": [None]}, frozenset({"user", "open:web"}))
    assert value.to_json() == {"data": {"a": [None]}, "label": ["open:web", "user"]}
    assert Value.from_json(value.to_json()) == value


def test_joining_keeps_every_origin() -> None:
    assert join([frozenset({"user"}), frozenset({"open:web", "user"})]) == {"user", "open:web"}


@pytest.mark.parametrize(
    ("label", "clean", "private"),
    [
        (CLEAN, True, False),
        (frozenset[str](), False, False),
        (frozenset({"user", "model"}), False, False),
        (frozenset({"user", "private:notes"}), False, True),
        (WORST, False, True),
    ],
)
def test_clean_and_private_are_told_by_the_label(label: Label, clean: bool, private: bool) -> None:
    assert (is_clean(label), has_private(label)) == (clean, private)
