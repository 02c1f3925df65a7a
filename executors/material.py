"""What a step was given, as a model is shown it: each value as data, large ones as a piece with a handle."""

from journal.artifacts import ArtifactNotKept, NewArtifact
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, Value

from .job import AnyJob
from .wording import shown, wrapped

SHOWN_WHOLE = 8_000
"""Characters of a value that a worker is shown; beyond, it sees head and tail and can read the rest."""
_HEAD, _TAIL = 4_000, 1_500
COMPOSED = 100_000
"""Characters of a value that a compose step is given: it has no way to read on."""


async def worker_material(journal: RunJournal, job: AnyJob) -> str:
    """The values of the step's needs for a worker, which can read the rest of a large one by its handle."""
    return "\n\n".join([await _for_worker(journal, job, step) for step in job.inputs])


def compose_material(job: AnyJob) -> str:
    """The values of the step's needs for a model without tools."""
    return "\n\n".join(
        wrapped(_head_and_tail(shown(value.data), COMPOSED), origin=f"step {step}")
        for step, value in job.inputs.items()
    )


async def _for_worker(journal: RunJournal, job: AnyJob, step: str) -> str:
    value = job.inputs[step]
    text = shown(value.data)
    if len(text) <= SHOWN_WHOLE:
        return wrapped(text, origin=f"step {step}")
    whole = await _whole(journal, job, step, value, text=text)
    piece = wrapped(_head_and_tail(text, _HEAD + _TAIL), origin=f"step {step}")
    return f"{piece}\nThis is a part; {whole}."


async def _whole(journal: RunJournal, job: AnyJob, step: str, value: Value, *, text: str) -> str:
    """Where the worker finds the whole value, or why it does not."""
    media_type = "text/plain" if isinstance(value.data, str) else "application/json"

    async def keep() -> Json:
        new = NewArtifact(job.step.id, "", media_type, text.encode("utf-8", "replace"), value.label)
        try:
            return (await journal.artifacts.add(journal.run.id, new)).id
        except ArtifactNotKept as problem:
            return {"not_kept": str(problem)}

    handle = await journal.memo(f"{job.key}/input.{step}", Meaning("input", job.meaning), keep)
    if not isinstance(handle, str):
        return f"the whole could not be kept: {handle['not_kept']}"
    return f'the whole is the artifact {handle}: read_artifact, or {{"$artifact": "{handle}"}}'


def _head_and_tail(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    tail = min(_TAIL, limit // 4)
    return (
        f"{text[: limit - tail]}\n… {len(text) - limit} of {len(text)} characters are left out here …\n{text[-tail:]}"
    )
