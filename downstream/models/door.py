"""The way out to models: recall, else reserve, ask with retries and fallbacks, settle and record."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import anyio

from downstream.model_port import (
    RETRIED,
    Finish,
    FunctionUse,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Models,
    Rate,
    Role,
    Traits,
)
from downstream.settings import ModelSettings
from journal.errors import BudgetReached, Fenced, SteprelayError
from journal.events import NewEvent
from journal.ledger import Amount, BudgetHeld, Purpose, Reservation, Spent
from journal.remembered import Remembered
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .estimate import Bills, Worst, marked
from .limiter import ModelLimiter, Sleep
from .siblings import LONGEST_WAIT, Siblings, shared_prefix

ATTEMPTS = 4
"""How often one model is asked before the next one is, or the call has failed."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_NO_FALLBACK = frozenset({"auth", "script"})
_MAY_HAVE_RUN = frozenset({"timeout", "transport", "malformed"})
_LOOK_SECONDS = 0.5


class NoModel(SteprelayError):
    """No model is set for a role."""

    def __init__(self, role: Role) -> None:
        super().__init__(
            f"no model is set for the role {role}: write `model:` into the settings (any name that litellm knows, or"
            " scripted:FILE), set a provider's key such as ANTHROPIC_API_KEY, or serve a model on this machine"
        )


@dataclass(frozen=True)
class Account:
    """On whose account a model is asked. `model` is a worker's own; without it the role's is asked."""

    purpose: Purpose = "work"
    worker: str | None = None
    model: str | None = None


WORK = Account()


class ModelDoor:
    """Asks models for every floor above; one for the whole process, so that limiters are shared by all runs.

    `needs_price` refuses models without a known price: then the user has set a limit in dollars. `longest_wait` bounds
    the seconds for which a request waits for one that begins alike and fills the provider's cache.
    """

    def __init__(
        self,
        models: Models,
        settings: ModelSettings,
        remembered: Remembered,
        *,
        needs_price: bool = False,
        sleep: Sleep = anyio.sleep,
        longest_wait: float = LONGEST_WAIT,
    ) -> None:
        self.models = models
        self.settings = settings
        self.remembered = remembered
        self.needs_price = needs_price
        self.sleep = sleep
        self.bills = Bills()
        self.siblings = Siblings(longest_wait)
        self._limiters: dict[str, ModelLimiter] = {}

    def model_for(self, role: Role, account: Account = WORK) -> str:
        """The model that is asked first. Raises NoModel."""
        model = account.model or self.settings.for_role(role)
        if model is None:
            raise NoModel(role)
        return model

    async def traits_of(self, model: str) -> Traits:
        """What is known of it: how much it takes in one request, for one."""
        return await self.models.traits_of(model)

    def limiter(self, model: str) -> ModelLimiter:
        return self._limiters.setdefault(model, ModelLimiter(self.sleep))

    async def ask(
        self, journal: RunJournal, key: str, meaning: Meaning, request: ModelRequest, *, account: Account = WORK
    ) -> ModelReply:
        """The reply recorded under `key`, else a model's, recorded before it is returned.

        Raises ModelFailed (recorded too: a replay fails the same way), BudgetReached (not recorded: see
        `budget.within_budget`), Fenced, MemoMismatch or NoModel.
        """
        if (found := await journal.recall(key, meaning)) is not None:
            return _recalled(found.value)
        first = self.model_for(request.role, account)
        fallbacks = [model for model in self.settings.fallbacks if model != first]
        asking = _Asking(self, journal, key, request, account=account)
        try:
            reply = await asking.any_of([first, *fallbacks])
        except ModelFailed as error:
            failed = {"model": error.model, "kind": error.kind, "text": error.reason}
            await journal.end_call(key, meaning, {"failed": failed}, spent=asking.spent, events=asking.events)
            raise
        except (BudgetReached, anyio.get_cancelled_exc_class()):
            with anyio.move_on_after(5, shield=True), suppress(Fenced):
                await journal.abandon_call(key, asking.spent_at_most, events=asking.events)
            raise
        await journal.end_call(key, meaning, {"reply": _to_json(reply)}, spent=asking.spent, events=asking.events)
        if "reasoning_effort" in reply.left_out:
            await journal.warn(f"model {reply.model} takes no reasoning_effort, so it was asked without")
        return reply


class _Asking:
    """One ask on its way: what it has spent, what is open now, and the events that tell of it."""

    def __init__(
        self, door: ModelDoor, journal: RunJournal, key: str, request: ModelRequest, *, account: Account
    ) -> None:
        self.door = door
        self.journal = journal
        self.key = key
        self.request = request
        self.account = account
        self.events: list[NewEvent] = []
        self.spent = Spent()
        self.open = Spent()
        self.sent = 0

    @property
    def spent_at_most(self) -> Spent:
        return _sum(self.spent, self.open)

    async def any_of(self, models: Sequence[str]) -> ModelReply:
        """The reply of the first model that gives one."""
        for model in models[:-1]:
            try:
                return await self._one(model)
            except ModelFailed as error:
                if not self._falls_back(error):
                    raise
        return await self._one(models[-1])

    def _falls_back(self, error: ModelFailed) -> bool:
        # A server that can't do a format says 400; then another format is tried before another model.
        formatted = self.request.schema is not None or self.request.force is not None
        return error.kind not in _NO_FALLBACK and not (error.kind == "bad_request" and formatted)

    async def _one(self, model: str) -> ModelReply:
        before, sent = self.spent, self.sent
        try:
            rate = await self._rate(model)
            reply = await self._with_retries(model, rate)
        except ModelFailed as error:
            self._tell(model, "failed", since=before, requests=self.sent - sent, error=error.kind)
            raise
        except BudgetReached:
            if self.sent > sent:
                self._tell(model, "failed", since=before, requests=self.sent - sent, error="budget")
            raise
        self._tell(model, reply.finish, since=before, requests=self.sent - sent, left_out=reply.left_out)
        return reply

    async def _rate(self, model: str) -> Rate | None:
        rate = await self.door.models.rate_of(model)
        if rate is None and self.door.needs_price:
            text = (
                "its price is not known, so budget.usd can't be kept; write model_options.price: {input_per_million: …,"
                " output_per_million: …}, or leave budget.usd out"
            )
            raise ModelFailed(model, "price", text)
        return rate

    async def _with_retries(self, model: str, rate: Rate | None) -> ModelReply:
        limiter, world = self.door.limiter(model), self.journal.world
        if (left := limiter.pause_left(world)) > _LONGEST_PAUSE:
            raise ModelFailed(model, "rate", f"its server asks for a pause, which lasts {left:.0f} s more")
        caches_from = (await self.door.traits_of(model)).caches_from
        prefix = shared_prefix(model, self.request, caches_from=caches_from)
        retry = 0
        while True:
            began = world.monotonic()
            try:
                async with self.door.siblings.turn(prefix, world):
                    worst = await self._reserve(model, rate)
                    async with limiter.slot(world) as began:
                        reply = await self._send(model, rate, worst=worst, retry=retry)
            except ModelFailed as error:
                pause = _pause(error.retry_after, retry, world.chance())
                if error.kind in ("rate", "overload"):
                    limiter.refused(world, pause, began=began)
                if error.kind not in RETRIED or retry + 1 == ATTEMPTS or _too_long(error.retry_after):
                    raise
                await self.door.sleep(pause)
                retry += 1
            else:
                limiter.answered()
                return reply

    async def _reserve(self, model: str, rate: Rate | None) -> Worst:
        """Set the worst case of the next try aside, on top of what earlier ones took; the row under the key is one."""
        longest = self.request.max_tokens + await self.door.models.room_of(model, self.request.role)
        worst = self.door.bills.worst(model, self.request, longest)
        usd = rate.cost(input_tokens=worst.prompt, output_tokens=worst.reply, written=worst.prompt) if rate else 0.0
        amount = Amount(self.sent + 1, 0, self.spent.tokens + worst.tokens, self.spent.usd + usd)
        account, place = self.account, self.request.place
        reservation = Reservation(
            self.key,
            amount,
            account.purpose,
            place.step,
            self.request.role,
            account.worker,
            model,
            cost_known=rate is not None,
        )
        await self._begin(reservation)
        return worst

    async def _begin(self, reservation: Reservation) -> None:
        """Begin once the budget reaches; what others under way may give back is waited for.

        One that has been tried holds its worst case itself and waits for nobody: two such would wait for each other.
        """
        journal = self.journal
        while True:
            ring = journal.bell.listen(journal.run.id)
            try:
                return await journal.begin_call(reservation)
            except BudgetHeld:
                if self.sent:
                    raise
            with anyio.move_on_after(_LOOK_SECONDS):
                await ring.wait()

    async def _send(self, model: str, rate: Rate | None, *, worst: Worst, retry: int) -> ModelReply:
        prompt, longest = worst.prompt, worst.reply
        usd = rate.cost(input_tokens=prompt, output_tokens=longest, written=prompt) if rate else 0.0
        self.open, self.sent = Spent(prompt, longest, usd=usd, cost_known=rate is not None, at_most=True), self.sent + 1
        placed = replace(self.request, place=replace(self.request.place, retry=retry))
        try:
            reply = await self.door.models.complete(model, placed)
        except ModelFailed as error:
            # Nobody tells what a request took whose end was not seen, or can't be read: all that it may have taken.
            self._take(error.spent or (self.open if error.kind in _MAY_HAVE_RUN else Spent()))
            raise
        self._take(reply.spent)
        self.door.bills.learn(model, worst, reply.spent)
        return marked(reply, self.request)

    def _take(self, spent: Spent) -> None:
        self.spent, self.open = _sum(self.spent, spent), Spent()

    def _tell(
        self,
        model: str,
        finish: Finish | str,
        *,
        since: Spent,
        requests: int,
        error: str | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        data: JsonObject = {
            "role": self.request.role,
            "model": model,
            "key": self.key,
            "input_tokens": self.spent.input_tokens - since.input_tokens,
            "output_tokens": self.spent.output_tokens - since.output_tokens,
            "cached_tokens": self.spent.cached_tokens - since.cached_tokens,
            "reasoning_tokens": self.spent.reasoning_tokens - since.reasoning_tokens,
            "cost_usd": round(self.spent.usd - since.usd, 9),
            "cost_known": self.spent.cost_known,
            "finish": finish,
            "requests": requests,
            "retries": max(0, requests - 1),
        }
        if self.spent.at_most:
            data["at_most"] = True
        if self.request.prompt:
            data["prompt"] = self.request.prompt
        if error is not None:
            data["error"] = error
        if left_out:
            data["left_out"] = list(left_out)
        self.events.append(NewEvent("model.called", data, step=self.request.place.step))


def _pause(asked: float | None, retry: int, chance: float) -> float:
    if asked is not None:
        return asked * (1 + chance / 10)
    return min(_FIRST_PAUSE * 2.0**retry * (0.5 + chance), _LONGEST_PAUSE)


def _too_long(asked: float | None) -> bool:
    """Whether a server wants a pause so long that the next model is asked instead; a try before its end is in vain."""
    return asked is not None and asked > _LONGEST_PAUSE


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        one.usd + other.usd,
        one.cost_known and other.cost_known,
        one.reasoning_tokens + other.reasoning_tokens,
        one.at_most or other.at_most,
    )


def _to_json(reply: ModelReply) -> JsonObject:
    return asdict(replace(reply, replayed=True))


def _recalled(value: Json) -> ModelReply:
    if (failed := value.get("failed")) is not None:
        raise ModelFailed(failed["model"], failed["kind"], failed["text"])
    fields: JsonObject = dict(value["reply"])
    fields["uses"] = tuple(FunctionUse(**use) for use in fields["uses"])
    fields["spent"] = Spent(**fields["spent"])
    fields["left_out"] = tuple(fields.get("left_out", ()))
    return ModelReply(**fields)
