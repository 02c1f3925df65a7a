"""The answer of a run: written by a model from typed outcomes, or by code where no model is to be asked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio

from downstream.budget import within_budget
from downstream.model_port import ModelFailed, Place
from downstream.models.door import NoModel
from downstream.models.structured import NoReply
from downstream.servers.names import clean_json
from executors.contract import Finding, Outcome
from executors.wording import cut, shown, wrapped
from journal.errors import BudgetReached
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject

from .asking import ANSWER, question
from .desk import Desk
from .markdown import LONGEST, cleaned, plain_line, urls_in
from .plan import AnyStep
from .progress import Progress
from .reading import read_texts
from .unended import Unended

SECONDS = 120.0
_SMALL = 4_000
"""Values above so many characters are not shown to the answer's model; the step's summary and findings are."""
_SHOWN = 48_000
_CONTEXT = 20_000
_WRITTEN = {"succeeded": "done", "partial": "partly done"}


@dataclass(frozen=True)
class Result:
    """The answer as people get it, with what a reader of the run may want besides."""

    text: str
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """What an answer is made of: every step that the run's plan had, with what became of it.

    `replaced` are those that a revision dropped and whose end does not count; `left_out` are required ones that it
    dropped before they ended, with nothing in their place; `unended` those without an outcome. `cut_short` says by
    which limit the run was, if one ended it.
    """

    goal: str
    steps: tuple[tuple[AnyStep, Outcome | None], ...]
    replaced: frozenset[str] = frozenset()
    left_out: tuple[AnyStep, ...] = ()
    unended: Mapping[str, Unended] = field(default_factory=dict[str, Unended])
    cut_short: str = ""

    @classmethod
    def of(
        cls, goal: str, progress: Progress | None, *, unended: Mapping[str, Unended], cut_short: str = ""
    ) -> "Picture":
        if progress is None:
            return cls(goal, (), cut_short=cut_short)
        gone = frozenset(progress.every) - frozenset(progress.plan.by_id) - frozenset(unended)
        steps = [(step, progress.outcomes.get(id_)) for id_, step in progress.every.items()]
        told = tuple((step, outcome) for step, outcome in steps if step.id not in gone or outcome is not None)
        left_out = tuple(step for step in progress.left_out if step.id not in unended)
        return cls(goal, told, gone - frozenset(progress.counting), left_out, unended, cut_short)

    def status(self, step: AnyStep, outcome: Outcome | None) -> str:
        """What became of a step, in a few words."""
        if outcome is not None:
            return outcome.status
        unended = self.unended.get(step.id)
        return unended.said if unended is not None and unended.began else "not run"

    @property
    def holds_something(self) -> bool:
        """Whether anything was found or done. Where nothing was, models invent an answer."""
        outcomes = [outcome for _, outcome in self.steps if outcome is not None]
        return any(outcome.value is not None or outcome.findings or outcome.effects for outcome in outcomes)

    @property
    def known_urls(self) -> set[str]:
        """Addresses that stand in the goal or in a result that the run rests on."""
        results = [outcome.value for step, outcome in self.steps if outcome is not None and step.kind == "call"]
        return urls_in(self.goal).union(*(urls_in(shown(value.data)) for value in results if value is not None))

    @property
    def findings(self) -> list[tuple[str, Finding]]:
        return [
            (step.id, finding) for step, outcome in self.steps if outcome is not None for finding in outcome.findings
        ]


async def written(journal: RunJournal, desk: Desk, picture: Picture, *, seconds: float = SECONDS) -> Result:
    """The answer by a model; by code where none gives one in time or within the budget."""
    key = f"answer.{journal.run.options.get('reopened', 0)}"
    meaning = {"steps": [[step.id, None if outcome is None else outcome.status] for step, outcome in picture.steps]}
    asked = question("answer", ANSWER, (_first_message(journal, picture),), meaning=meaning, place=Place())
    try:
        with anyio.fail_after(seconds):
            reply = await within_budget(journal, key, asked.meaning, partial(desk.ask, journal, key, asked))
    except (BudgetReached, NoReply, NoModel, ModelFailed, TimeoutError) as error:
        why = "it took too long" if isinstance(error, TimeoutError) else cut(str(error), 300)
        await journal.warn(f"the answer was put together without a model: {why}")
        return by_code(picture)
    text = str(reply.get("answer") or "").strip()
    caveats = [plain_line(caveat, longest=400) for caveat in read_texts(reply.get("caveats"))]
    return _result(picture, text, caveats) if text else by_code(picture)


def by_code(picture: Picture) -> Result:
    """The answer put together from the outcomes, in our words around theirs."""
    parts = [_section(step, outcome) for step, outcome in picture.steps if outcome is not None]
    text = "\n\n".join(part for part in parts if part) or "Nothing was found: no step gave a result."
    return _result(picture, text, ())


def _result(picture: Picture, text: str, caveats: Sequence[str]) -> Result:
    # Ours come first: what is cut where they grow too long are a model's.
    caveats = (*filter(None, [picture.cut_short]), *_undone(picture), *caveats)
    known = picture.known_urls
    notes = cleaned("\n".join(f"- {caveat}" for caveat in caveats), known=known, longest=LONGEST // 3)
    tail = f"\n\n**Please note**\n\n{notes}" if notes else ""
    return Result(cleaned(text, known=known, longest=LONGEST - len(tail)) + tail, tuple(caveats))


def _undone(picture: Picture) -> list[str]:
    """Which steps and workers did not succeed, if any; then also which did. And what revisions took out of the plan."""
    good: list[str] = []
    bad: list[str] = []
    gone: list[str] = []
    for step, outcome in picture.steps:
        if outcome is not None and outcome.status == "succeeded":
            good.append(_name(step))
        else:
            into = gone if step.id in picture.replaced else bad
            into.append(f"{_name(step)}: {picture.status(step, outcome)}")
    notes = {
        "Steps that did not succeed": bad,
        "Steps that succeeded": (good or ["none"]) if bad else [],
        "Steps that did not succeed and that a revision dropped": gone,
        "Steps that a revision dropped before they ended": [_name(step) for step in picture.left_out],
    }
    return [f"{said}: {', '.join(steps)}." for said, steps in notes.items() if steps]


def _name(step: AnyStep) -> str:
    return f"{step.id} (worker {step.worker})" if step.kind == "worker" else step.id


def _section(step: AnyStep, outcome: Outcome) -> str:
    said = plain_line(outcome.summary or outcome.problem or "")
    title, status = plain_line(step.title or step.id), _WRITTEN.get(outcome.status, outcome.status)
    lines = [f"**{title}** ({status}): {said or 'no summary'}"]
    lines += [f"- {plain_line(item.claim)}{'' if item.supported else ' (not confirmed)'}" for item in outcome.findings]
    if step.kind == "compose" and outcome.value is not None:
        lines = [lines[0], "", shown(outcome.value.data)]
    return "\n".join(lines)


def _first_message(journal: RunJournal, picture: Picture) -> str:
    run, left = journal.run, _SHOWN
    parts = [f"Goal:\n{wrapped(run.goal, origin='goal')}"]
    if run.context:
        parts.append(f"Context:\n{wrapped(cut(run.context, _CONTEXT), origin='context')}")
    for step, outcome in picture.steps:
        text = json.dumps(
            _facts(step, outcome, small=min(_SMALL, left), status=picture.status(step, outcome)), ensure_ascii=False
        )
        left = max(0, left - len(text))
        parts.append(wrapped(text, origin=f"step {step.id}"))
    return "\n\n".join(parts)


def _facts(step: AnyStep, outcome: Outcome | None, *, small: int, status: str) -> JsonObject:
    facts: JsonObject = {"step": step.id, "title": step.title, "kind": step.kind, "status": status}
    if outcome is None:
        return facts
    facts |= {"summary": outcome.summary, "problem": outcome.problem}
    facts["findings"] = [{"claim": found.claim, "supported": found.supported} for found in outcome.findings]
    facts["changed"] = list(outcome.effects)
    value: Json = None if outcome.value is None else outcome.value.data
    if value is not None:
        whole = shown(value)
        facts["value"] = clean_json(value) if len(whole) <= small else f"(left out: {len(whole)} characters)"
    return {key: item for key, item in facts.items() if item not in (None, "", [])}
