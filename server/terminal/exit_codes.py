"""What the end of a command tells the shell (DESIGN section 11)."""

from enum import IntEnum
from typing import TYPE_CHECKING

from journal.errors import DecisionRefused, SteprelayError, StoreError, UnknownId

if TYPE_CHECKING:
    from journal.runs import Run


class ExitCode(IntEnum):
    """The codes that scripts may rely on."""

    OK = 0
    USAGE = 2
    SETTINGS = 3
    FAILED = 4
    WAITING = 5
    BUDGET = 6
    REFUSED = 7
    INTERRUPTED = 130


class UsageProblem(SteprelayError):
    """A command that was called in a way in which it can do nothing."""


_BY_REASON = {
    "done": ExitCode.OK,
    "budget": ExitCode.BUDGET,
    "deadline": ExitCode.BUDGET,
    "refused": ExitCode.REFUSED,
    "no_progress": ExitCode.FAILED,
    "error": ExitCode.FAILED,
    "cancelled": ExitCode.INTERRUPTED,
}


def code_of_run(run: "Run") -> ExitCode:
    """The code for a run that has ended, or that waits for a person."""
    return ExitCode.WAITING if run.stop_reason is None else _BY_REASON[run.stop_reason]


def code_of_error(error: SteprelayError) -> ExitCode:
    """The code for a command that could not do what it was asked to do."""
    from journal.grants import GrantSpent
    from journal.runs import KeyInUse
    from journal.settings import NotBuiltYet
    from planner.plan import PlanError
    from server.host.depth import TooDeep
    from server.host.kept_secret import NotKept
    from server.page.approver import BadApprover
    from server.settings_file.document import SettingsError
    from server.settings_file.model_choice import NoModelFound

    if isinstance(error, SettingsError | NoModelFound | NotBuiltYet | StoreError | NotKept):
        return ExitCode.SETTINGS
    asked_wrongly = UnknownId | DecisionRefused | PlanError | KeyInUse | TooDeep | GrantSpent | BadApprover
    if isinstance(error, UsageProblem | asked_wrongly) or _is_not_served(error):
        return ExitCode.USAGE
    return ExitCode.FAILED


def _is_not_served(error: SteprelayError) -> bool:
    """Looked at last: its module brings the SDK along, a second to import where nothing else has."""
    from server.host.serving import NotServed

    return isinstance(error, NotServed)
