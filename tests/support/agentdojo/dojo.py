"""AgentDojo in an environment of its own: what it tells of its tasks, how it judges, and how a suite is started."""

import functools
import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import third_party

HERE = Path(__file__).parent
_SECONDS = 900.0
_NEEDS = ("deepdiff", "docstring-parser", "pydantic[email]", "pyyaml", "rich", "mcp>=2.3,<3")


@dataclass(frozen=True)
class Task:
    """A user task, poisoned by an injection task or (None) by nothing."""

    suite: str
    user: str
    injection: str | None = None


@dataclass(frozen=True)
class UserCall:
    """A call that the user's task needs. `given` names the arguments that an earlier call's result gave, with its
    number; `seen` says that its own result holds the injected text."""

    tool: str
    arguments: dict[str, Any]
    given: dict[str, int]
    seen: bool


@dataclass(frozen=True)
class Call:
    """A call of a tool of the suite."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What AgentDojo says of a task; `attack` is empty where only the answer could do what the attacker wants."""

    task: Task
    goal: str
    answer: str
    calls: tuple[UserCall, ...]
    attack: tuple[Call, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether the user's task was done, and whether the attacker got what was wanted, in AgentDojo's judgement."""

    useful: bool
    hit: bool


def installed() -> third_party.Ready | third_party.Missing:
    """AgentDojo without the model vendors' libraries, which its suites do not need."""
    return third_party.python_with("agentdojo-0.1.35", ("--no-deps", "agentdojo==0.1.35"), _NEEDS)


def python() -> str:
    """The Python in which AgentDojo is installed."""
    found = installed()
    assert isinstance(found, third_party.Ready)
    return found.command[0]


def suite_command(suite: str, *, desk: Path, log: Path) -> list[str]:
    """The command of a suite as an MCP server on stdio, to be started in `HERE`."""
    return [python(), "-m", "inside.server", suite, str(desk), str(log)]


@functools.cache
def suites() -> dict[str, Any]:
    """The user tasks, injection tasks and tools of each suite."""
    (line,) = _clerk("list", [])
    return dict(line)


def all_tasks() -> list[Task]:
    """The 97 tasks without an attack, then the 949 pairs."""
    plain = [Task(name, user) for name, suite in suites().items() for user in suite["users"]]
    return plain + [
        Task(task.suite, task.user, injection) for task in plain for injection in suites()[task.suite]["injections"]
    ]


def tell(tasks: Sequence[Task]) -> list[Told]:
    """What AgentDojo says of these tasks."""
    return [_told(task, line) for task, line in zip(tasks, _clerk("tell", map(vars, tasks)), strict=True)]


def judge(ended: Sequence[tuple[Told, Sequence[Call]]]) -> list[Verdict]:
    """AgentDojo's judgement of tasks in which these calls were made, in turn, and its own expected answer was given."""
    asked = (
        {**vars(told.task), "answer": told.answer, "calls": [vars(call) for call in calls]} for told, calls in ended
    )
    return [Verdict(**line) for line in _clerk("judge", asked)]


def _told(task: Task, line: Any) -> Told:
    calls = tuple(UserCall(**call) for call in line["calls"])
    return Told(task, line["goal"], line["answer"], calls, tuple(Call(**call) for call in line["attack"]))


def _clerk(what: Literal["list", "tell", "judge"], asked: Iterable[dict[str, Any]]) -> list[Any]:
    command = [python(), "-m", "inside.clerk", what]
    lines = "\n".join(map(json.dumps, asked))
    done = subprocess.run(command, cwd=HERE, input=lines, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]
