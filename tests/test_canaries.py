"""No secret leaves, by any way out: a run with secrets in settings, goal, arguments, results and stderr, looked at from
everywhere."""

import base64
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import pytest
from command_line import answered, open_terminal
from mcp.shared.exceptions import MCPError
from mcp_hosts import Host, cancels, open_host, open_stdio_host, serve, text_of
from model_server import ModelServer, Rule, answer, call, compose, planner, report, serve_model, worker
from page_visits import open_visit
from panel_hosts import PanelHost, open_panel_host
from products import call_step, open_test_product, script, write_settings
from typed_lines import typed

from journal.actions import Decision
from journal.settings import state_folder
from server.commands.plan import as_text
from server.grant_file import GrantFile, sealed
from server.granting import Life
from server.plan_only import make_plan
from server.product import Product
from server.terminal.granting import ask_grants_of

# What litellm warns of, or leaves for the collector, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

_LEAKING = Path(__file__).parent / "support" / "toy_servers" / "leaking_server.py"
VARIABLES = {
    "SHOP_TOKEN": 'tok"7f/3a\\9c+1e2b',
    "EXTRA_SECRET": "extra-4b1d9c77e0",
    "VAULT_HEADER": "head-51c0ffee9a",
    "VAULT_CLIENT": "client-a9a9b1b2c3",
}
WRITTEN = {"SHOP_KEY": "written-0d0e0f1a2b", "api_key": "model-77d1e6f0a4", "login": "login-e1f2a3b4c5"}
PIN = 4929123456781
CANARIES = (*VARIABLES.values(), *WRITTEN.values(), str(PIN))
TOKEN, EXTRA = VARIABLES["SHOP_TOKEN"], VARIABLES["EXTRA_SECRET"]
BOTH = f"{TOKEN} and {EXTRA}"
GOAL = f"Look with {BOTH}, then write to ana@example.org"
ORDINARY = "/srv/data/2026-01-01/keys.txt is 4929123456780 long, and token 12345678"


def forms(secret: str) -> set[str]:
    """Those in which a secret must not stand anywhere, also of its first 12 letters, as a text cut short has them."""
    raw = secret.encode()
    encoded = [encode(raw).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode)]
    quoted = [quote(secret, safe=""), quote_plus(secret), quote(secret, safe="").lower()]
    start = secret if secret.isdecimal() else secret[:12]
    return {start, json.dumps(start)[1:-1], *encoded, raw.hex(), raw.hex().upper(), *quoted}


def leaks(ways: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each way out with the secret that came out by it."""
    return [
        (way, form)
        for way, text in ways.items()
        for secret in CANARIES
        for form in forms(secret)
        if form in text.replace("\\\\", "\\") or form in text
    ]


def servers(folder: Path) -> dict[str, Any]:
    """`shop` has secrets and tells them, `notes` has none, `vault` is not there."""
    command = [sys.executable, "-I", "-S", str(_LEAKING)]
    env = {
        "SHOP_TOKEN": "${SHOP_TOKEN}",
        "SHOP_KEY": WRITTEN["SHOP_KEY"],
        "PIN_KEY": PIN,
        "TELL": "SHOP_TOKEN SHOP_KEY PIN_KEY",
    }
    return {
        "shop": {"command": command[0], "args": [*command[1:], str(folder / "shop.log")], "env": env},
        "notes": {"command": command[0], "args": [*command[1:], str(folder / "notes.log")]},
        "vault": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Api-Key": "Bearer ${VAULT_HEADER}"}},
    }


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    client = {"kind": "client_credentials", "client_id": "me", "client_secret": "${VAULT_CLIENT}"}
    return {
        "secrets": ["EXTRA_SECRET"],
        "server_options": {"vault": {"auth": client, "start_timeout": 2}},
        "approvals": {"page": "off"},
        "revise": "never",
        "audit": {"checkpoints": str(folder / "checkpoints")},
        **more,
    }


STEPS: list[Any] = [
    call_step("look", "shop.look", to="ana", text=BOTH),
    call_step("other", "notes.look", text=f"{BOTH}, {ORDINARY}", to="ana"),
    {
        "id": "study",
        "kind": "worker",
        "title": f"Study {EXTRA}",
        "worker": "operator",
        "needs": ["look"],
        "task": f"Study with {BOTH}; {ORDINARY}",
        "tools": ["shop.look", "shop.big", "shop.fail", "shop.crash", "notes.look"],
    },
    {"id": "draft", "kind": "compose", "title": "Draft", "needs": ["look", "study"], "task": f"Draft {EXTRA}"},
    call_step("own", "shop.post", "look", to="ana@example.org", text=f"{TOKEN}, {PIN}"),
    call_step("foreign", "notes.post", "look", to="ana@example.org", text={"$step": "draft"}),
    call_step("target", "notes.post", to=f"{TOKEN}@example.org", text="x") | {"optional": True},
    call_step("ask", "shop.ask", text="hello"),
]
_TURNS: list[Any] = [
    [
        call("shop.look", text="[secret:SHOP_TOKEN]", to="ana"),
        call("shop.fail", text="x"),
        call("shop.crash", text="y"),
    ],
    [call("shop.big", text="z"), call("notes.look", to="ana", text="{{last_tool}}")],
]
RULES: list[Rule] = [
    *planner(STEPS),
    *worker("study", _TURNS, report(f"Found {BOTH}", {f"It is {EXTRA}": [0]}, data={"k": EXTRA, "n": PIN})),
    *compose("draft", f"Dear Ana, {BOTH}. {ORDINARY}"),
    *answer(f"Done with {BOTH}. {ORDINARY}"),
]

TELLING = [
    *("plan_and_execute", "get_run 1", "list_runs 2", "plan_and_execute 6", "list_runs 7", "prompt", "forms"),
    *("resource run://{run}", "resource run://{run}/report", "resource run://{run}/events", "resource error"),
    *("waiting: page /api/state", "model requests", "runs list --json"),
    *("runs show {run}", "runs show {run} --json", "runs show {run} --actions", "runs watch {run} --json"),
    *("export.json", "artifacts in export.json", "file notes.log", "grant file", "servers tools --json"),
    *("waiting: panel_state", "panel_state"),
]
"""Ways by which secrets would leave, were they not replaced there."""
PLAIN = ("model requests", "file notes.log", "export.json")
"""Ways by which words, paths and numbers that are no secrets come through as they are."""


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def open_all(folder: Path, model: ModelServer) -> AsyncGenerator[tuple[Product, Host, PanelHost, list[Any]]]:
    """The product on the model server, two hosts in front of it, one of which has the panel, and the forms that the
    other was asked to show."""
    options = {"api_base": f"{model.url}/v1", "api_key": WRITTEN["api_key"]}
    given = settings(folder, model="openai/scripted", model_options=options)
    person = cancels()
    async with (
        open_test_product(folder, script=script(), servers=servers(folder), settings=given) as (product, server),
        open_host(server, on_elicit=person) as host,
        open_panel_host(server) as panel,
    ):
        product.store.outlet.learn("login at vault", WRITTEN["login"])
        yield product, host, panel, person.asked


async def decide_all(product: Product, run_id: str) -> None:
    """A person's yes to everything that comes, until the run ends."""
    with anyio.fail_after(30):
        while not (await product.store.run(run_id)).ended:
            for action in await product.store.actions(run_id):
                if action.state == "waiting":
                    content = {"word": "tea"} if action.kind == "form" else None
                    await product.decide(action, Decision(action.choices[0], "person", "terminal", None, content))
            with anyio.move_on_after(0.2):
                await product.until(run_id, lambda run: run.ended)


async def asked_of_host(host: Host, run_id: str) -> dict[str, str]:
    """What a host gets by every tool, resource and prompt, refusals and errors included."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_run", {"run_id": run_id}),
        ("get_run", {"run_id": run_id, "detail": True}),
        ("list_runs", {}),
        ("get_run", {"run_id": BOTH}),
        ("cancel_run", {"run_id": EXTRA, "reason": BOTH}),
        ("approve_action", {"action_id": TOKEN, "decision": EXTRA}),
        ("plan_and_execute", {"goal": GOAL, "budget": {EXTRA: PIN}}),
        ("list_runs", {"status": EXTRA, TOKEN: PIN}),
    ]
    ways = {f"{tool} {number}": str(await host.call(tool, given)) for number, (tool, given) in enumerate(calls)}
    links = [str(each.uri) for each in (await host.client.list_resources()).resources]
    for uri in {f"run://{run_id}", f"run://{run_id}/report", f"run://{run_id}/events", *links, f"run://{EXTRA}"}:
        try:
            ways[f"resource {uri.replace(EXTRA, '')}"] = str(await host.client.read_resource(uri))
        except MCPError as error:
            ways["resource error"] = str(error.error)
    ways["prompt"] = str(await host.client.get_prompt("delegate", {"goal": GOAL}))
    ways["tools"] = str(await host.client.list_tools()) + str(await host.client.list_resources())
    return ways


async def on_the_page(product: Product) -> dict[str, str]:
    async with open_visit(product) as page:
        await page.sign_in()
        paths = ("/", "/api/state", "/api/tools", "/api/passkeys", f"/a/{EXTRA}")
        ways = {f"page {path.replace(EXTRA, 'x')}": (await page.get(path)).text for path in paths}
        refused = [await page.choose({"action_id": TOKEN, "digest": EXTRA}, BOTH)]
        for card in await page.actions():
            refused += [await page.choose(card, BOTH), await page.choose(card, "approve", grants=[TOKEN])]
            edit = {"action_id": card["action_id"], "digest": card["digest"], "arguments": json.dumps({EXTRA: TOKEN})}
            refused.append(await page.post("/api/edit", edit))
        return ways | {"page refusals": "".join(answer.text for answer in refused)}


async def in_the_panel(panel: PanelHost, run_id: str) -> dict[str, str]:
    """What the panel is given, and told where it asks for what it may not."""
    opened = await panel.show("get_run", run_id=run_id)
    state = await panel.state()
    refused = [
        await panel.choose({"action_id": TOKEN, "digest": EXTRA}, BOTH),
        await panel.choose({"action_id": TOKEN, "digest": EXTRA}, BOTH, view_key=TOKEN),
        await panel.client.call_tool("panel_state", {"run_id": EXTRA, "view_key": panel.key, TOKEN: EXTRA}),
    ]
    for card in state["run"]["actions"]:
        refused += [await panel.choose(card, BOTH), await panel.choose(card, "approve", note=BOTH)]
        refused += [await panel.edit(card, TOKEN), await panel.edit(card, {EXTRA: TOKEN})]
    refused.append(await panel.class_tool({"tool": TOKEN, "pin": EXTRA}, "read"))
    return {"panel opened": str(opened), "panel_state": json.dumps(state), "panel refusals": str(refused)}


async def in_a_grant_file(product: Product) -> dict[str, str]:
    """A plan with what a person at the terminal grants of it, as it is written to a file."""
    made = (await make_plan(product, GOAL, BOTH)).plan
    with typed("y", "", "prefix: Dear", "y"):
        grants = await ask_grants_of(product.settings, product.store, made["steps"], goal=GOAL, life=Life())
    assert [(grant.step, grant.arguments["text"]) for grant in grants] == [("foreign", {"prefix": "Dear"})]
    return {"grant file": as_text(sealed(GrantFile(made, tuple(grants))), None)}


def in_commands(folder: Path, run_id: str) -> dict[str, str]:
    """What each command prints or writes, in words and as JSON."""
    config = ("--config", str(folder / "steprelay.json"))
    out, redacted = folder / "export.json", folder / "redacted.json"
    commands = [
        *[("runs", "list", *more) for more in ((), ("--json",))],
        *[("runs", "show", run_id, *more) for more in ((), ("--json",), ("--actions",), ("--actions", "--json"))],
        *[("runs", "watch", run_id, *more) for more in ((), ("--json",))],
        *[("runs", "replay", run_id, *more) for more in ((), ("--json",))],
        ("runs", "export", run_id, "-o", str(out)),
        ("runs", "export", run_id, "--redact", "-o", str(redacted)),
        *[("approvals", *more) for more in ((), ("--json",))],
        *[("servers", "list", *more) for more in ((), ("--json",))],
        *[("servers", "tools", *more) for more in ((), ("--json",), ("vault",))],
        *[("doctor", "--no-model", *more) for more in ((), ("--json",))],
        ("audit", "export"),
        ("audit", "verify"),
        ("config", "show"),
        ("policy", "explain", "shop.post", json.dumps({"to": TOKEN, "text": PIN})),
        ("approve", TOKEN),
        ("runs", "show", EXTRA),
    ]
    ways: dict[str, str] = {}
    for words in commands:
        done = answered(*words, *config, cwd=folder)
        ways[" ".join(word for word in words[:4] if word not in CANARIES)] = done.stdout + done.stderr
    for path in (out, redacted):
        ways[path.name] = path.read_text(encoding="utf-8")
        contents = [each["content"] for each in json.loads(ways[path.name])["artifacts"]]
        ways[f"artifacts in {path.name}"] = "".join(base64.b64decode(each).decode() for each in contents)
    return ways


def in_files(folder: Path) -> dict[str, str]:
    """All else that is written: logs, artifacts, checkpoints; not the store, which is plain, nor what was sent."""
    plain = ("store.db", "store.db-wal", "steprelay.json", "script.json", "shop.log")
    files = [file for root in (folder, state_folder()) for file in root.rglob("*") if file.is_file()]
    return {f"file {file.name}": file.read_text(errors="replace") for file in files if file.name not in plain}


async def live_ways(folder: Path) -> tuple[str, dict[str, str], dict[str, str]]:
    """A run from its beginning to its end: its id, what came out meanwhile and afterwards, and how its steps ended."""
    with serve_model(RULES) as model:
        async with open_all(folder, model) as (product, host, panel, forms_shown):
            first = await host.call("plan_and_execute", {"goal": GOAL, "context": BOTH, "wait_seconds": 30})
            view: Any = first.structured_content
            run_id: str = view["run_id"]
            early = await asked_of_host(host, run_id) | await in_the_panel(panel, run_id)
            early |= await on_the_page(product)
            for action in await product.store.actions(run_id):
                word = {"action_id": action.id, "decision": "approve", "edited_arguments": {"to": TOKEN, "text": EXTRA}}
                early[f"approve_action {action.key}"] = text_of(await host.call("approve_action", word))
            await decide_all(product, run_id)
            late = await asked_of_host(host, run_id) | await in_the_panel(panel, run_id)
            late |= await on_the_page(product) | await in_a_grant_file(product)
            late |= {"forms": str(forms_shown), "progress": "\n".join(host.progress), "plan_and_execute": str(first)}
            steps: dict[str, str] = {step.id: step.status for step in await product.store.steps(run_id)}
        late["model requests"] = "\n".join(json.dumps(each.body, ensure_ascii=False) for each in model.requests)
        assert model.unmatched == []
    return run_id, {f"waiting: {way}": text for way, text in early.items()} | late, steps


def test_no_secret_leaves_by_any_way_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_id, ways, steps = anyio.run(live_ways, tmp_path)
    ways |= in_commands(tmp_path, run_id)
    ways |= in_files(tmp_path)
    ways["stdout"], ways["stderr"] = capfd.readouterr()
    with capfd.disabled():
        sys.stdout.write(f"\n{'way out':58}characters, placeholders, secrets\n")
        for way, text in ways.items():
            found = len(leaks({way: text}))
            sys.stdout.write(
                f"{way.replace(run_id, 'RUN')[:60]:62}{len(text):>8}{text.count('[secret:'):>6}{found:>4}\n"
            )
    assert leaks(ways) == []
    assert steps == {step["id"]: "failed" if step["id"] == "target" else "succeeded" for step in STEPS}
    assert [way for way in TELLING if "[secret:" not in ways[way.format(run=run_id)]] == []
    assert [way for way in PLAIN if ORDINARY not in ways[way]] == []
    sent = [json.loads(line)["arguments"] for line in (tmp_path / "shop.log").read_text().splitlines()]
    assert {"to": "ana", "text": f"{TOKEN} and [secret:EXTRA_SECRET]"} in sent
    assert {"to": "ana", "text": TOKEN} in sent
    assert {"to": "ana@example.org", "text": f"{TOKEN}, {PIN}"} in sent


async def from_a_process(folder: Path) -> tuple[str, dict[str, str]]:
    """The same of `serve` as a process, on a scripted model, until its run waits: the action, and what was said."""
    steps = [step for step in STEPS if step["id"] in ("look", "own")] + [call_step("bad", "shop.crash", text="x")]
    given = settings(folder)
    path = write_settings(folder, script=script(*steps), servers=servers(folder), settings=given)
    async with open_stdio_host(serve(path), VARIABLES) as host:
        view = await host.structured("plan_and_execute", {"goal": GOAL, "wait_seconds": 30})
        ways = {"view": str(view), "progress": str(host.progress), "stderr": host.stderr()}
    return view["actions"][0]["action_id"], ways


def test_no_secret_leaves_by_a_serve_process_or_at_a_terminal(tmp_path: Path) -> None:
    action, ways = anyio.run(from_a_process, tmp_path)
    with open_terminal("approve", action, "--config", str(tmp_path / "steprelay.json"), cwd=tmp_path) as terminal:
        terminal.expect("level person")
        terminal.expect('SHOP_TOKEN in "text", PIN_KEY in')
        terminal.expect("approve, deny or later?")
    ways |= in_files(tmp_path) | {"terminal": terminal.seen}
    assert leaks(ways) == []
    assert [way for way in ("view", "terminal") if "[secret:" not in ways[way]] == []
