"""Runs that came from elsewhere (`runs import`): they are looked at and replayed, and nothing changes them."""

from .database import Transaction
from .errors import DecisionRefused


class ReadOnlyRun(DecisionRefused):
    """Something was to be done to an imported run that only a run of this store can take."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} was imported and is read-only: nothing drives, resumes, forks, cancels or decides it; "
            f"`runs show {run_id}` shows it, `runs replay {run_id}` re-runs it"
        )


def refuse_imported(tx: Transaction, run_id: str) -> None:
    """Raises ReadOnlyRun."""
    if tx.row("SELECT 1 FROM imports WHERE run = ?", (run_id,)) is not None:
        raise ReadOnlyRun(run_id)
