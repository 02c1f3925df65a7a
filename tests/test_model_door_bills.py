"""What a request is paid with whose bill nobody saw, and what its event says of that."""

from pathlib import Path

import pytest
from run_at_hand import open_run

from downstream.model_port import FailureKind, Message, ModelFailed, ModelReply, ModelRequest, Models, Place, Rate
from downstream.models.door import ModelDoor
from downstream.models.estimate import worst_prompt
from downstream.settings import ModelSettings
from journal.ledger import Spent
from journal.run_journal import Meaning

REQUEST = ModelRequest("worker", Place(step="s"), (Message("user", "x" * 400),), 50)
MEANING = Meaning("worker", {})


async def rate_of(model: str) -> Rate | None:
    return Rate(1.0, 1.0)


async def nothing() -> None:
    """There is nothing to warm, and nothing to wait for."""


async def no_pause(seconds: float) -> None:
    await nothing()


@pytest.mark.parametrize(
    ("kind", "paid"), [("malformed", True), ("timeout", True), ("overload", False)], ids=["unreadable", "late", "down"]
)
async def test_a_reply_that_nobody_could_read_is_paid_with_its_worst_case(
    tmp_path: Path, kind: FailureKind, paid: bool
) -> None:
    async def complete(model: str, request: ModelRequest) -> ModelReply:
        if not request.place.retry:
            raise ModelFailed(model, kind, "no")
        return ModelReply(model, "fine", spent=Spent(7, 1, usd=0.000008))

    async with open_run(tmp_path) as run:
        door = ModelDoor(
            Models(complete, rate_of, nothing), ModelSettings(model="m"), run.store.remembered, sleep=no_pause
        )
        await door.ask(await run.take(), "k", MEANING, REQUEST)
        usage, most = await run.usage(), worst_prompt(REQUEST)
        assert (usage.input_tokens, usage.output_tokens) == ((7 + most, 51) if paid else (7, 1))
        assert await run.data("model.called", "at_most") == [{"at_most": True if paid else None}]
