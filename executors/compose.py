"""A compose step: one model call without tools that turns what the step was given into text."""

from functools import partial

from downstream.budget import within_budget
from downstream.model_port import RETRIED, Message, ModelFailed, ModelReply, ModelRequest, Place
from downstream.models.door import Account, NoModel
from journal.errors import BudgetReached
from journal.run_journal import Meaning, RunJournal
from journal.values import Value

from .attempts import Attempt, Number
from .contract import Outcome
from .job import Equipment, Job, under_limits
from .material import compose_material
from .step import ComposeStep
from .wording import cut, prompt, versions, wrapped

_MAX_TOKENS = 8_192
_SUMMARY = 200


async def attempt_compose(equipment: Equipment, journal: RunJournal, job: Job[ComposeStep], number: Number) -> Attempt:
    """Ask for the text once; text that was cut by its length makes the step partial."""
    step = job.step
    key, meaning = f"{number.key}/turn.1", Meaning("compose", job.meaning)
    messages = (Message("system", prompt("compose")), Message("user", _first_message(job, number)))
    place = Place(step=step.id, attempt=number.number)
    request = ModelRequest("compose", place, messages, _MAX_TOKENS, prompt=versions("compose"))
    ask = partial(equipment.ask, journal, key, meaning, request, account=Account())
    try:
        reply = await within_budget(journal, under_limits(key, journal), meaning, ask, step=step.id)
    except BudgetReached as error:
        return Attempt(Outcome(step.id, "failed", problem=f"not written: {error}", limit=error.limit), over_budget=True)
    except ModelFailed as error:
        return Attempt(Outcome(step.id, "failed", problem=str(error)), may_retry=error.kind in RETRIED)
    except NoModel as error:
        return Attempt(Outcome(step.id, "failed", problem=str(error)))
    return _attempt(job, reply)


def _first_message(job: Job[ComposeStep], number: Number) -> str:
    parts = [f"step: {job.step.id}", f"Task: {job.step.task}", compose_material(job)]
    if number.before is not None:
        parts.append(f"An earlier attempt failed:\n{wrapped(number.before, origin='attempt')}")
    return "\n\n".join(filter(None, parts))


def _attempt(job: Job[ComposeStep], reply: ModelReply) -> Attempt:
    step = job.step.id
    text = reply.text.strip()
    if reply.finish == "refusal":
        return Attempt(Outcome(step, "failed", problem=f"model {reply.model} refused to write this"))
    if not text:
        return Attempt(Outcome(step, "failed", problem=f"model {reply.model} wrote nothing"), may_retry=True)
    whole = reply.finish != "length"
    return Attempt(
        Outcome(
            step,
            "succeeded" if whole else "partial",
            summary=cut(text.splitlines()[0], _SUMMARY),
            value=Value(text, job.read | {"model"}),
            problem=None if whole else f"the text was cut at {_MAX_TOKENS} tokens",
        )
    )
