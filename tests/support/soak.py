"""Drives runs over several tool servers in this process while one of those is killed every second:
`soak.py FOLDER [--runs N] [--servers N] [--seed S]`.

A quarter of the servers, and at least one, stand behind HTTP. A table says what became of it all; exit code 1 if
anything is not as it must be. The choices come from the seed, the times do not.
"""

import argparse
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import toys
from journals import rows
from products import call_step
from quick_jobs import settings
from soak_servers import Servers
from soak_verdict import EFFECTS, Sample, Verdict, grown, judge, thirds

from journal.actions import Action, Decision
from journal.errors import DecisionRefused
from journal.tasks import open_tasks
from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, load_settings

AT_ONCE = 12
BETWEEN_KILLS = 1.0
LONGEST_CALL = 1.2
LAST_SECONDS = 120.0
"""After the last run has begun, all must end within that long."""


@dataclass
class Soak:
    """A product with its servers; `live` is all of it."""

    product: Product
    servers: Servers
    random: random.Random
    runs: list[str] = field(default_factory=list[str])
    samples: list[Sample] = field(default_factory=list[Sample])

    async def live(self, count: int) -> None:
        """So many runs, from the first, which all servers live through, to the end of the last."""
        await self._begin([call_step(name, f"{name}.read", key="first") for name in self.servers.names])
        await self._all_ended()
        async with open_tasks() as tasks:
            for work in (self.kill, self.answer, self.open_gates):
                tasks.start_soon(_again_and_again, work)
            while len(self.runs) < count:
                if await self._under_way() < AT_ONCE:
                    await self._begin(self._plan(f"j{len(self.runs):04d}"))
                await anyio.sleep(0.02)
            await self._all_ended()

    async def kill(self) -> None:
        """What is in use, and a second later one server less."""
        await anyio.sleep(BETWEEN_KILLS)
        self.samples.append(_in_use())
        self.servers.kill(self.random)

    async def answer(self) -> None:
        """Answer as a person who looks into the server's log before saying what became of a call."""
        await anyio.sleep(0.05)
        for action in await self.product.store.waiting_actions():
            # A server may do what it was sent until it has ended.
            if action.kind == "unknown" and not toys.alive(self.servers.ending):
                with suppress(DecisionRefused):
                    await self.product.decide(action, Decision(self._what_became_of(action), "person", "terminal"))

    async def open_gates(self) -> None:
        """Let calls that wait end, each some time after it began."""
        await anyio.sleep(0.02)
        now = time.time()
        for _, call in self.servers.calls("stuck", "wait"):
            gate = self.servers.folder / call["arguments"]["gate"]
            if not gate.exists() and now - call["at"] > self.random.uniform(0.1, LONGEST_CALL):
                gate.touch()

    def _what_became_of(self, action: Action) -> str:
        made = [(f"{name}.{call['tool']}", call["arguments"]["key"]) for name, call in self.servers.calls(*EFFECTS)]
        return "done" if (action.tool, action.arguments["key"]) in made else "retry"

    async def _begin(self, steps: list[dict[str, Any]]) -> None:
        request = Request(f"Job {len(self.runs)}.", plan={"steps": steps})
        self.runs.append(await self.product.start(request))

    async def _under_way(self) -> int:
        [(count,)] = await rows(self.product.store, "SELECT COUNT(*) FROM runs WHERE ended_at IS NULL")
        return int(count)

    async def _all_ended(self) -> None:
        with anyio.fail_after(LAST_SECONDS):
            # The engine tells nobody.
            while await self._under_way():  # noqa: ASYNC110
                await anyio.sleep(0.05)

    def _plan(self, tag: str) -> list[dict[str, Any]]:
        """Reads and allowed writes beside and after each other, over servers that the seed chooses."""

        def call(id_: str, tool: str, *needs: str, gate: bool = False) -> dict[str, Any]:
            tool = f"{self.random.choice(self.servers.names)}.{tool}"
            arguments = {} if tool.endswith(".wait") else {"key": f"{tag}-{id_}"}
            return call_step(id_, tool, *needs, **arguments, **({"gate": f"go-{tag}-{id_}"} if gate else {}))

        return [
            call("look", "read"),
            call("hold", "wait", gate=True),
            call("one", "add"),
            call("kept", "stuck", gate=True),
            call("tell", "tell", "look"),
            call("two", "add", "look", "one"),
            call("more", "stuck", "hold", "kept", gate=True),
            call("last", "add", "two", "more"),
        ]


async def _again_and_again(work: Callable[[], Any]) -> None:
    while True:
        await work()


def _in_use() -> Sample:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return Sample(len(os.listdir("/proc/self/fd")), threading.active_count(), int(status["VmRSS"].split()[0]))


def _settings(servers: Servers) -> Path:
    rules = [{"allow": f"{name}.{tool}"} for name in servers.names for tool in EFFECTS]
    script = {"plan": [], "revise": [{"decision": "finish", "reason": "It failed."}], "answer": "All is done."}
    return settings(
        servers.folder,
        script,
        mcpServers=servers.entries(),
        server_options={name: {"max_parallel": 16} for name in servers.names},
        policy={"rules": rules},
    )


async def main(folder: Path, options: argparse.Namespace) -> list[str]:
    """What is wrong."""
    servers, began = Servers(folder, options.servers, max(1, options.servers // 4)), time.monotonic()
    try:
        loaded = load_settings(Found(_settings(servers), "option"), environ=os.environ)
        async with open_product(loaded, world=World()) as product:
            soak = Soak(product, servers, random.Random(options.seed))
            await soak.live(options.runs)
            verdict = await judge(product.store, soak.runs, servers)
    finally:
        servers.close()
    _print(soak, verdict, seconds=time.monotonic() - began)
    left = [f"processes are left: {pids}" for pids in [toys.children_of(os.getpid())] if pids]
    return [*verdict.wrong, *grown(soak.samples), *left]


def _print(soak: Soak, verdict: Verdict, *, seconds: float) -> None:
    first, last = thirds(soak.samples)
    rows = {
        "runs": f"{len(soak.runs)}, ended {dict(verdict.ends)}",
        "servers": f"{soak.servers.count}, of which {soak.servers.over_http} over HTTP",
        "kills": str(len(soak.servers.kills)),
        "asked about": f"{verdict.asked.total()} writes, said {dict(verdict.asked)}",
        "effects": f"{len(soak.servers.calls(*EFFECTS))}, twice {verdict.twice}, lost {verdict.lost}",
        "open files": f"{first.files} in the first third, {last.files} in the last",
        "threads": f"{first.threads} in the first third, {last.threads} in the last",
        "memory": f"{first.kib / 1024:.1f} MiB in the first third, {last.kib / 1024:.1f} in the last",
        "time": f"{seconds:.0f} s",
    }
    sys.stdout.write("".join(f"{name:12} {said}\n" for name, said in rows.items()))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = read_options()
    WRONG = anyio.run(main, OPTIONS.folder.resolve(), OPTIONS)
    sys.stdout.write("".join(f"wrong: {text}\n" for text in WRONG))
    sys.exit(1 if WRONG else 0)
