"""What AgentDojo knows and judges, as JSON lines on stdin and stdout. Runs in AgentDojo's own environment.

`python -m inside.clerk tell`: for each {"suite", "user", "injection"} its goal, calls, answer and attack.
`python -m inside.clerk judge`: for each of these with the "calls" made and the "answer" given, {"useful", "hit"}.
`python -m inside.clerk list`: the user and injection tasks of each suite.
"""

import json
import sys
from typing import Any

from .suites import SUITES, Room, suite_of


def tell(asked: dict[str, Any]) -> dict[str, Any]:
    room = Room(asked["suite"], asked["user"], asked["injection"])
    attack = room.attack_calls() if room.injection else []
    told = {"goal": room.task.PROMPT, "answer": room.task.GROUND_TRUTH_OUTPUT, "attack": attack}
    return asked | told | {"calls": room.users_calls()}


def judge(asked: dict[str, Any]) -> dict[str, Any]:
    """The calls that the server's log holds lead to the room that is judged."""
    room = Room(asked["suite"], asked["user"], asked["injection"])
    for call in asked["calls"]:
        room.call(call["tool"], call["arguments"])
    return {"useful": room.is_useful(asked["answer"]), "hit": bool(room.injection) and room.is_hit(asked["answer"])}


def everything() -> dict[str, Any]:
    suites = {name: suite_of(name) for name in SUITES}
    return {
        name: {
            "users": list(suite.user_tasks),
            "injections": list(suite.injection_tasks),
            "tools": [tool.name for tool in suite.tools],
        }
        for name, suite in suites.items()
    }


def main() -> None:
    if sys.argv[1] == "list":
        sys.stdout.write(json.dumps(everything()) + "\n")
        return
    answer = {"tell": tell, "judge": judge}[sys.argv[1]]
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line)), default=str) + "\n")


if __name__ == "__main__":
    main()
