"""The small parts of settings: names of tools, and budgets that a call may lower."""

import pytest

from downstream.tool_names import ToolNameError, matches, normalise_server_name, read_tool_name
from planner.settings import BudgetRequest, BudgetSettings


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fs.read", "fs.read"),
        (" fs.a.b ", "fs.a.b"),
        ("fs/read", "fs.read"),
        ("fs/a.b", "fs.a.b"),
        ("fs__read", "fs.read"),
        ("a__b.c", "a-b.c"),
        ("mcp__fs__read__it", "fs.read__it"),
        ("mcp__My_Files__read.x", "my-files.read.x"),
        ("mcp__fs", "fs.*"),
        ("mcp__fs__*", "fs.*"),
        ("My Files.Read", "my-files.Read"),
        ("*", "*.*"),
        ("*.delete_?", "*.delete_?"),
        ("a*/x", "a*.x"),
    ],
)
def test_a_tool_name_is_read_in_every_form(text: str, name: str) -> None:
    assert read_tool_name(text) == name


@pytest.mark.parametrize("text", ["", "Read", ".x", "x.", "mcp__", "-.x"])
def test_a_text_that_names_no_tool_is_refused(text: str) -> None:
    with pytest.raises(ToolNameError):
        read_tool_name(text)


def test_server_names_have_one_form() -> None:
    assert [normalise_server_name(text) for text in ("Fs", "my_server.v2", " Büro* ")] == ["fs", "my-server-v2", "b-ro"]


@pytest.mark.parametrize(
    ("glob", "tool", "fits"),
    [
        ("fs.*", "fs.a.b", True),
        ("*.delete_*", "fs.delete_all", True),
        ("*.delete_*", "fs.undelete_all", False),
        ("f?.[a]", "fs.[a]", True),
        ("f?.[a]", "fs.a", False),
        ("fs.read", "fs.Read", False),
        ("fs*", "fs.read", False),
    ],
)
def test_globs_fit_part_by_part(glob: str, tool: str, fits: bool) -> None:
    assert matches(glob, tool) is fits


def test_a_call_may_lower_the_budget_and_not_raise_it() -> None:
    budget, warnings = BudgetSettings(steps=10).lowered_by(BudgetRequest(steps=5, usd=50, tool_calls=120))
    assert (budget.steps, budget.usd, budget.tool_calls) == (5, 2.0, 120)
    assert warnings == ["budget.usd stays at 2.0: a call may only lower it, not raise it to 50.0"]
    assert not budget.usd_is_written
