"""The root of every error that steprelay raises on purpose, and the journal's own."""


class SteprelayError(Exception):
    """A problem that steprelay can name; its text says what is wrong and the way out."""


class StoreError(SteprelayError):
    """The store cannot be used: unreadable, locked, newer than this release, or on a file system without locks."""


class Fenced(SteprelayError):
    """This process no longer drives the run: another one took it over, or it ended."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} is driven elsewhere or has ended; nothing more may be written for it here")


class MemoMismatch(SteprelayError):
    """A recorded key was reached again with another meaning, so the run cannot be replayed."""

    def __init__(self, key: str, *, recorded: str, now: str) -> None:
        self.key = key
        super().__init__(
            f"the run cannot be replayed: {key} was recorded as {recorded} and is now {now}; "
            "settings or release changed under it, so it ends with what it has"
        )


class KeyReused(SteprelayError):
    """A drive recorded a second result under one memo key: a fault of ours, since a key is used once per drive."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"{key} has been recorded already; the run ends with what it has, please report this")


class UnknownId(SteprelayError):
    """No run, action or artifact of this owner has that id."""

    def __init__(self, kind: str, id_: str) -> None:
        self.kind, self.id = kind, id_
        shown = "list_runs and `steprelay runs list` show all"
        way = "`steprelay approvals` lists what waits" if kind == "action" else shown
        super().__init__(f"no {kind} {id_!r} is known here; {way}")


class DecisionRefused(SteprelayError):
    """A decision that cannot be taken: no such choice, decided already, or the action has ended."""


class BudgetReached(SteprelayError):
    """A reservation does not fit what is left of the budget named by `limit`."""

    def __init__(self, limit: str, *, allowed: float, used: float) -> None:
        self.limit, self.allowed, self.used = limit, allowed, used
        super().__init__(
            f"the budget {limit} does not reach: {used:g} of {allowed:g} is used, and more would be needed"
        )
