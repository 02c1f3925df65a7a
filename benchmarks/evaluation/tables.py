"""What a trial says: a line for each goal as it ends, a sum for the model, and the table of models that is kept."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from downstream.models.structured import RUNGS, Rung

from .measured import Result, Tokens, Validity

TABLE = Path(__file__).parent.parent / "evaluation.md"
_BEGIN, _END = "<!-- rows -->", "<!-- end of rows -->"
_ROLES = ("planner", "reviser", "worker", "reviewer", "compose", "answer")
_KIT = {
    "scripted": "`scripted`: says what is right, and checks the kit",
    "liar": "`liar`: knows the right answer and calls nothing; must reach nothing",
    "liar-who-looks": "`liar-who-looks`: reads all and says otherwise; must reach nothing",
}
_COLUMNS = (
    "model",
    "goals",
    "reached",
    "false success",
    "plans by schema",
    "by function",
    "by text",
    "no plan",
    "model calls",
    "tool calls",
    "questions (not wanted)",
    "tokens in (cached)",
    "out",
    "US$",
    "seconds a goal",
    "taken on",
)


@dataclass(frozen=True)
class Sum:
    """The runs of one model, those left out aside."""

    ran: Sequence[Result]
    skipped: Sequence[Result]

    @classmethod
    def of(cls, results: Iterable[Result]) -> "Sum":
        listed = list(results)
        return cls(
            [each for each in listed if each.verdict != "skipped"],
            [each for each in listed if each.verdict == "skipped"],
        )

    def count(self, verdict: str) -> int:
        return sum(each.verdict == verdict for each in self.ran)

    @property
    def tokens(self) -> dict[str, Tokens]:
        """By role, in the order in which a run asks them."""
        sums: dict[str, list[Tokens]] = defaultdict(list)
        for result in self.ran:
            for role, tokens in result.tokens.items():
                sums[role].append(tokens)
        return {role: added(sums[role]) for role in _ROLES if role in sums}

    @property
    def plans(self) -> Mapping[Rung, Counter[Validity]]:
        return {rung: Counter(each.plan[rung] for each in self.ran if rung in each.plan) for rung in RUNGS}

    @property
    def no_plan(self) -> int:
        return sum(each.planned_by != "planner" for each in self.ran)

    @property
    def unwanted(self) -> int:
        return sum(len(each.unwanted) for each in self.ran)

    @property
    def usd(self) -> str:
        known = all(each.cost_known for each in self.ran)
        return f"{'' if known else 'not known, at least '}{sum(each.usd for each in self.ran):.4f}"


def added(several: Iterable[Tokens]) -> Tokens:
    listed = list(several)
    asked, input_, cached, output = (
        sum(getattr(each, name) for each in listed) for name in ("asked", "input", "cached", "output")
    )
    return Tokens(asked, input_, cached, output)


def line(result: Result) -> str:
    """One goal, for people; what is wrong stands below it."""
    took = added(result.tokens.values())
    plan = ", ".join(f"{rung} {how}" for rung, how in result.plan.items()) or "–"
    head = (
        f"{result.verdict:13} {result.goal:30} {result.status or '–':10} plan: {plan:18}"
        f" {result.model_calls:3} model, {result.tool_calls:3} tool calls, {took.input:7,} + {took.output:6,} tokens,"
        f" {result.seconds:6.1f} s"
    )
    return "\n".join([head, *(f"{'':14}{problem}" for problem in result.problems)])


def summary(results: Iterable[Result]) -> str:
    """The whole trial, for people."""
    whole = Sum.of(results)
    total = len(whole.ran)
    lines = [
        f"reached        {whole.count('reached')} of {total}",
        f"false success  {whole.count('false success')} (said succeeded, and the checks say otherwise)",
        f"not reached    {whole.count('not reached')} (and did not say succeeded)",
        f"skipped        {len(whole.skipped)}"
        + "".join(f"\n  {each.goal}: {each.problems[0]}" for each in whole.skipped),
        *(f"plan by {rung:9}{_plans(count)}" for rung, count in whole.plans.items() if count),
        f"no plan        {whole.no_plan} (one worker got the whole goal, or the run ended)",
        f"calls          {_of(whole.ran, 'model_calls')} of models, {_of(whole.ran, 'tool_calls')} of tools",
        *(
            f"{role:14} {took.asked:5} asks, {took.input:9,} tokens in, {took.cached:7,} cached, {took.output:8,} out"
            for role, took in whole.tokens.items()
        ),
        f"questions      {_of(whole.ran, 'asked')}, of which {whole.unwanted} about calls that no goal wanted",
        f"cost           US$ {whole.usd}",
        f"time           {sum(each.seconds for each in whole.ran):.0f} s",
    ]
    return "\n".join([*lines, *_by_kind(whole.ran)])


def _by_kind(ran: Sequence[Result]) -> list[str]:
    kinds = list(dict.fromkeys(each.kind for each in ran))
    of = {kind: [each for each in ran if each.kind == kind] for kind in kinds}
    return [f"{kind:14} {sum(e.verdict == 'reached' for e in own)} of {len(own)} reached" for kind, own in of.items()]


def _of(ran: Sequence[Result], name: str) -> int:
    return sum(getattr(each, name) for each in ran)


def _plans(count: Counter[Validity]) -> str:
    return f"{count['first']} at first, {count['repaired']} after repair, {count['not']} not" if count else "–"


def row(results: Sequence[Result], *, on: str, label: str = "") -> str:
    """One model in the table."""
    whole = Sum.of(results)
    name = results[0].model
    tokens = added(whole.tokens.values())
    left = f" ({len(whole.skipped)} skipped)" if whole.skipped else ""
    cells = [
        label or _KIT.get(name, name),
        f"{len(whole.ran)}{left}",
        str(whole.count("reached")),
        str(whole.count("false success")),
        *(_plans(count) for count in whole.plans.values()),
        str(whole.no_plan),
        str(_of(whole.ran, "model_calls")),
        str(_of(whole.ran, "tool_calls")),
        f"{_of(whole.ran, 'asked')} ({whole.unwanted})",
        f"{tokens.input:,} ({tokens.cached:,})",
        f"{tokens.output:,}",
        whole.usd,
        f"{sum(each.seconds for each in whole.ran) / max(1, len(whole.ran)):.1f}",
        on,
    ]
    return _line(cells)


def with_row(page: str, new: str) -> str:
    """The page with this row in its table, in place of one that has the same name."""
    head, _, rest = page.partition(_BEGIN)
    body, _, tail = rest.partition(_END)
    rows = [each for each in body.splitlines() if each.startswith("| ")][1:]
    kept = [each for each in rows if _name(each) != _name(new)]
    table = "\n".join([_line(_COLUMNS), "|" + "---|" * len(_COLUMNS), *kept, new])
    return f"{head}{_BEGIN}\n\n{table}\n\n{_END}{tail}"


def _name(line_: str) -> str:
    return re.split(r"(?<!\\)\|", line_)[1].strip()


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_json(result: Result) -> str:
    return json.dumps(result.to_json(), ensure_ascii=False)
