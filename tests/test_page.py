"""The page's door and what is decided behind it: nobody gets in unknown, and nothing is decided unseen."""

import json
from pathlib import Path
from typing import Any

import pytest
from page_visits import ORIGIN, PORT, Visit, add_action, open_visit, start_waiting
from products import call_step, open_test_product, script

from journal.world import World
from server.page.app import asset
from server.views.deeds import deed_lines, deeds_of

SAY = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
QUICK: dict[str, Any] = {"approvals": {"min_answer_seconds": 0}}
PLAN = script(SAY, steps={"say": {"text": "Hello."}})


async def test_who_is_not_signed_in_sees_nothing_and_decides_nothing(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        run_id = await start_waiting(product)
        await visit.sign_in()
        (card,) = await visit.actions()
        key, cookies = visit.key, dict(visit.client.cookies)
        for held, sent in (("", {}), ("", cookies), (key, {}), ("another", cookies)):
            visit.key = held
            visit.client.cookies = sent
            answers = [
                await visit.get("/api/state"),
                await visit.choose(card, "approve"),
                await visit.post("/api/edit", {"action_id": card["action_id"], "digest": "", "arguments": "{}"}),
                await visit.post("/api/session/end", {}),
            ]
            assert [answer.status_code for answer in answers] == [401] * 4
            assert answers[0].json() == {
                "error": "nobody is signed in; type `steprelay ui` in a terminal, or the PIN here",
                "pin": False,
            }
        (action,) = await product.store.actions(run_id)
    assert action.state == "waiting"


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", {"host": "127.0.0.1:80"}),
        ("GET", "/", {"host": "localhost:80"}),
        ("GET", "/", {"host": f"localhost.evil.example:{PORT}"}),
        ("GET", "/api/state", {"host": f"localhost:{PORT}", "origin": ORIGIN}),
        ("POST", "/api/decide", {"host": f"localhost:{PORT}", "origin": ORIGIN}),
        ("POST", "/api/decide", {"origin": f"http://localhost:{PORT}"}),
        ("GET", "/api/state", {"host": "evil.example"}),
        ("GET", "/api/state", {"origin": "https://evil.example"}),
        ("GET", "/api/state", {"sec-fetch-site": "cross-site"}),
        ("GET", "/api/state", {"sec-fetch-site": "same-site"}),
        ("POST", "/api/decide", {}),
        ("POST", "/api/decide", {"origin": "null"}),
        ("POST", "/api/session", {"origin": f"http://127.0.0.1:{PORT + 1}"}),
        ("POST", "/api/session", {"origin": ORIGIN, "sec-fetch-site": "same-site"}),
    ],
)
async def test_a_request_of_another_site_is_refused(
    tmp_path: Path, method: str, path: str, headers: dict[str, str]
) -> None:
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        await visit.sign_in()
        answer = await visit.client.request(method, path, headers={"x-steprelay-key": visit.key, **headers})
    assert (answer.status_code, answer.headers["x-frame-options"]) == (403, "DENY")


async def test_the_page_is_at_both_names_of_this_machine_with_a_session_for_each(tmp_path: Path) -> None:
    named = f"localhost:{PORT}"
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        headers = {"host": named, "origin": f"http://{named}", "sec-fetch-site": "same-origin"}
        begun = await visit.client.post("/api/session", json={"code": visit.code()}, headers=headers)
        visit.key = begun.json()["key"]
        assert (await visit.get("/api/state", host=named)).status_code == 200


@pytest.mark.parametrize("path", ["/", "/a/a_x", "/assets/view.js", "/assets/page.css", "/assets/none", "/api/state"])
async def test_every_answer_forbids_framing_foreign_content_and_keeping(tmp_path: Path, path: str) -> None:
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        headers = (await visit.get(path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert headers["referrer-policy"] == "no-referrer"


def test_the_pages_files_hold_no_inline_script_and_set_no_markup() -> None:
    names = ("view.js", "passkeys.js", "page.js")
    page, scripts = asset("page.html").decode(), b"".join(map(asset, names)).decode()
    assert [f'<script src="/assets/{name}" defer></script>' in page for name in names] == [True] * 3
    assert page.count("<script") == 3
    assert not any(word in page for word in ("style=", "<style", "onclick", "http:", "https:"))
    assert not any(word in scripts for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write"))


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"code": "x"}', {"content-type": "text/plain"}, 415),
        (b"{", {}, 400),
        (b'{"code": "x", "more": 1}', {}, 400),
        (b'{"pin": "' + b"1" * 300 + b'"}', {}, 400),
        (b'{"pin": "\\ud800"}', {}, 400),
        (b" " * (1024 * 1024 + 1), {}, 413),
        (b'{"code": "\xc3\xa4.\xc3\xa4.\xc3\xa4"}', {}, 403),
        (b"{}", {}, 403),
    ],
    ids=["no JSON", "broken", "more than is taken", "too long", "half a character", "too large", "no ASCII", "empty"],
)
async def test_a_body_that_no_page_of_ours_sends_is_refused(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int
) -> None:
    usual = {"content-type": "application/json", "origin": ORIGIN}
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        answer = await visit.client.post("/api/session", content=body, headers=usual | headers)
    assert answer.status_code == status, answer.text


async def test_a_persons_yes_counts_once_for_exactly_what_was_shown_long_enough(tmp_path: Path) -> None:
    ahead = [0.0]
    real = World()
    world = World(now=lambda: real.now() + ahead[0], monotonic=lambda: real.monotonic() + ahead[0])
    async with (
        open_test_product(tmp_path, script=PLAN, servers={}, world=world) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await start_waiting(product)
        await visit.sign_in()
        unseen = {"action_id": (await product.store.actions(run_id))[0].id, "digest": ""}
        assert "not what was shown" in (await visit.choose(unseen, "approve")).text
        (card,) = await visit.actions()
        soon = await visit.choose(card, "approve")
        assert (soon.status_code, "shown less than 1.5 s ago" in soon.text) == (409, True)
        ahead[0] += 2
        assert "has no 'maybe'" in (await visit.choose(card, "maybe")).text
        assert "no action" in (await visit.choose({"action_id": "a_x", "digest": ""}, "approve")).text
        done = await visit.choose(card, "approve", note="Go on.")
        assert done.json() == {"message": "Recorded: approve."}
        again = await visit.choose(card, "approve")
        assert (again.status_code, "already, once and for all" in again.text) == (409, True)
        run = await product.until(run_id, lambda run: run.ended)
        (action,) = await product.store.actions(run_id)
    assert run.status == "succeeded"
    assert (action.choice, action.decided_level, action.via, action.note) == ("approve", "person", "page", "Go on.")


async def test_a_no_needs_no_time_and_ends_the_run_as_refused(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        run_id = await start_waiting(product)
        await visit.sign_in()
        (card,) = await visit.actions()
        assert [choice["no"] for choice in card["choices"]] == [False, True]
        assert (await visit.choose(card, "deny")).status_code == 200
        run = await product.until(run_id, lambda run: run.ended)
        assert (await visit.get("/api/state")).json()["runs"] == []
    assert run.stop_reason == "refused"


async def test_what_needs_a_passkey_is_not_moved_by_the_page(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=PLAN, servers={}, settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        action = await add_action(product, await start_waiting(product), level="passkey")
        await visit.sign_in()
        card = (await visit.actions())[-1]
        refused = await visit.choose(card, "approve")
        assert (await product.store.action(action.id)).state == "waiting"
    assert (refused.status_code, "needs a yes of level passkey" in refused.text) == (409, True)


async def test_arguments_are_shown_whole_with_every_sign_that_is_not_seen(tmp_path: Path) -> None:
    hostile = "safe\u202egpj.exe\u200b\x1b[2K</script><img src=x onerror=alert(1)>"
    arguments = {"to": hostile, "body": "one\ntwo\u2028three", "big": ["x" * 1000] * 200, "\u202ename": {"a": 1.5}}
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        run_id = await start_waiting(product)
        await add_action(product, run_id, arguments=arguments, reasons=("from web\u202e: to",))
        await visit.sign_in()
        card = (await visit.actions())[-1]
    shown = {argument["name"]: argument["value"] for argument in card["arguments"]}
    assert shown["to"] == '"safe\\u202egpj.exe\\u200b\\u001b[2K</script><img src=x onerror=alert(1)>"'
    assert shown["body"] == "one\ntwo\\u2028three"
    assert json.loads(shown["big"]) == arguments["big"]
    assert json.loads(shown["\\u202ename"]) == {"a": 1.5}
    assert card["reasons"] == ["from web\\u202e: to"]
    assert card["title"] == "Call it?"


async def test_a_secret_is_not_shown_and_such_a_call_is_not_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-value-1")
    settings = {"secrets": ["MY_TOKEN"]}
    async with (
        open_test_product(tmp_path, script=PLAN, servers={}, settings=settings) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await start_waiting(product)
        await add_action(product, run_id, arguments={"token": "s3cret-value-1"}, key="a/approval")
        await add_action(product, run_id, arguments={"plain": 1}, key="b/approval")
        await visit.sign_in()
        answer = await visit.get("/api/state")
        _, hidden, plain = answer.json()["runs"][0]["actions"]
    assert "s3cret-value-1" not in answer.text
    assert hidden["arguments"][0]["value"] == '"[secret:MY_TOKEN]"'
    assert (hidden["editable"], plain["editable"]) == (None, '{\n  "plain": 1\n}')


async def test_a_servers_form_is_filled_in_and_what_does_not_fit_leaves_it_waiting(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your\u202e name", "maxLength": 5},
            "size": {"type": "string", "enum": ["s", "m"]},
            "password": {"type": "string"},
        },
        "required": ["name"],
    }
    arguments = {"server": "shop", "tool": "shop.order", "message": "Who?", "schema": schema}
    question = 'shop asks for input before it goes on with shop.order.\nshop writes: "Who?"'
    async with (
        open_test_product(tmp_path, script=PLAN, servers={}, settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await start_waiting(product)
        action = await add_action(product, run_id, kind="form", arguments=arguments, question=question)
        await visit.sign_in()
        card = (await visit.actions())[-1]
        unfit = await visit.choose(card, "submit", content={"name": "far too long"})
        assert (unfit.status_code, "'name' takes" in unfit.text.replace('\\"', "'")) == (422, True)
        assert (await visit.choose(card, "submit", content={"name": "Ada", "size": "m"})).status_code == 200
        decided = await product.store.action(action.id)
    assert (decided.choice, decided.content) == ("submit", {"name": "Ada", "size": "m"})
    assert card["told"] == ['shop writes: "Who?"']
    assert card["arguments"] == []
    assert [(field["name"], field["required"], field["secret"]) for field in card["fields"]] == [
        ("name", True, False),
        ("size", False, False),
        ("password", False, True),
    ]
    assert card["fields"][0]["label"] == '"Your\\u202e name"'


async def test_a_decision_on_a_run_that_nobody_drives_says_what_it_waits_for(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        run_id = await start_waiting(product)
        change = "UPDATE runs SET fingerprint = 'other', settings_path = '/elsewhere.yaml' WHERE id = ?"
        await product.store.database.write("test", lambda tx: tx.change(change, (run_id,)))
        await visit.sign_in()
        (card,) = await visit.actions()
        told = (await visit.choose(card, "deny")).json()["message"]
    assert told == "Recorded: deny. Its run goes on once a process with /elsewhere.yaml is alive."


async def test_what_became_of_a_call_can_be_told_after_the_runs_end(tmp_path: Path) -> None:
    async with (
        open_test_product(tmp_path, script=PLAN, servers={}, settings=QUICK) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await start_waiting(product)
        await visit.sign_in()
        await visit.choose((await visit.actions())[0], "approve")
        await product.until(run_id, lambda run: run.ended)
        await add_action(product, run_id, kind="unknown", level="person", arguments={"a": 1})
        (card,) = await visit.actions()
        told = (await visit.choose(card, "not_done")).json()["message"]
    assert [choice["label"] for choice in card["choices"]] == [
        "It happened",
        "It did not happen",
        "Send it again",
        "Give up",
    ]
    assert told == "Recorded. Its run has ended, so nothing is sent."


async def test_a_run_that_is_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=PLAN, servers={}) as (product, _), open_visit(product) as visit:
        run_id = await start_waiting(product)
        await visit.sign_in()
        await product.store.database.write("test", lambda tx: tx.change("DELETE FROM runs WHERE id = ?", (run_id,)))
        assert (await visit.get("/api/state")).json()["runs"] == []


@pytest.mark.e2e
async def test_an_edited_call_waits_anew_and_shows_what_changed_and_where_all_came_from(tmp_path: Path) -> None:
    read = call_step("look", "ledger.read_item", key="plan")
    keep = call_step("keep", "ledger.add_item", key="abcd", value={"$step": "look.value"})
    settings: dict[str, Any] = QUICK | {"policy": {"sinks": {"ledger.add_item": ["/key"]}}}
    async with (
        open_test_product(tmp_path, script=script(read, keep), settings=settings) as (product, _),
        open_visit(product) as visit,
    ):
        run_id = await start_waiting_call(visit)
        (card,) = await visit.actions()
        assert {each["name"]: (each["target"], each["from"]) for each in card["arguments"]} == {
            "key": (True, [{"text": "stands in the goal", "usual": True}]),
            "value": (False, [{"text": "read by ledger", "usual": False}]),
        }
        edit = {"action_id": card["action_id"], "digest": card["digest"]}
        for bad, told in (("{", "no JSON"), ("[1]", "no JSON object"), ('{"key": 1}', "do not fit")):
            assert told in (await visit.post("/api/edit", edit | {"arguments": bad})).text
        new = {"key": "abcd", "value": "Ship on Monday."}
        answer = await visit.post("/api/edit", edit | {"arguments": json.dumps(new)})
        assert answer.json()["message"].startswith("Nothing has run.")
        (edited,) = await visit.actions()
        assert edited["level"] == "host"
        sql = "SELECT data FROM audit WHERE type = 'action.edited'"
        (line,) = await product.store.database.read(lambda tx: tx.rows(sql))
        said = json.loads(line["data"])
        assert (said["action_id"], said["edit_of"], said["via"]) == (edited["action_id"], card["action_id"], "page")
        deeds = "\n".join(deed_lines(await deeds_of(product.store, run_id)))
        assert f", an edit of {card['action_id']} by a person on the page of {said['client']}\n" in deeds
        changed = {each["name"]: (each["changed"], each["before"]) for each in edited["arguments"]}
        assert changed == {"key": (False, None), "value": (True, '"Ship on Friday."')}
        assert (await visit.choose(edited, "approve")).status_code == 200
        run = await product.until(run_id, lambda run: run.ended)
    assert run.status == "succeeded"


async def start_waiting_call(visit: Visit) -> str:
    from server.product import Request

    run_id = await visit.product.start(Request("Keep what is there under abcd ."))
    await visit.product.until(run_id, lambda run: run.status == "awaiting_approval")
    await visit.sign_in()
    return run_id
