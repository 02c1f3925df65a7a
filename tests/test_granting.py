"""What a person is offered to grant of a plan, what they see and can make of it, and the file that keeps it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_case import server, tool
from products import call_step, open_test_product, script
from typed_lines import typed

from downstream.policy_settings import PolicySettings
from downstream.tools import Tool
from journal.grants import Grant
from journal.outlet import Outlet
from journal.settings import state_folder
from journal.values import JsonObject
from server.commands.plan import as_text
from server.grant_file import GrantFile, read_grant_file, sealed
from server.granting import Granter, Life, NotOffered, Offer, plan_digest
from server.settings_file.document import read_document
from server.terminal.exit_codes import UsageProblem
from server.terminal.granting import ask_grants_of

SEND = tool("mail.send", "write", ["to", "body"], description="Sends to team@x.example by default.")
SECRET = "hunter2hunter2"
ANA: JsonObject = {"to": "ana@x.example", "body": "Hello"}


def offered(*steps: JsonObject, policy: JsonObject | None = None, of: Tool = SEND) -> list[Offer | NotOffered]:
    rules = PolicySettings.model_validate(policy or {}, strict=False)
    tools = (of, tool("mail.read", "read", ["id"]), tool("web.look", "egress", ["bcc@x.example"]))
    granter = Granter(rules, {"mail": server("mail")}, tools, Outlet([("KEY", SECRET)]))
    return granter.offers(list(steps), goal="Write to someone@x.example")


def test_each_call_that_would_be_asked_about_is_offered_with_what_is_not_known_yet() -> None:
    drafted = call_step("draft", "mail.send", **(ANA | {"body": {"$step": "read"}}))
    found = offered(
        call_step("read", "mail.read", id="1"),
        {"id": "think", "kind": "compose", "task": "think"},
        call_step("gone", "mail.gone"),
        call_step("send", "mail__send", **ANA, urgent={"$literal": {"$step": "x"}}),
        drafted,
    )
    assert [(each.step, each.arguments, each.filled, each.first) for each in found if isinstance(each, Offer)] == [
        ("send", ANA | {"urgent": {"$step": "x"}}, (), ("to", "urgent")),
        ("draft", {"to": ANA["to"]}, ("body",), ("to",)),
    ]


@pytest.mark.parametrize(
    ("arguments", "policy", "why"),
    [
        (ANA, {"rules": [{"deny": "mail.send", "when": {"/to": {"prefix": "ana"}}}]}, "the policy denies it"),
        (ANA, {"rules": [{"ask": "mail.send", "via": "passkey"}]}, "it needs a yes by passkey"),
        (ANA | {"body": "x" * 4_001}, None, "its arguments are too long to be shown"),
        (ANA | {"body": f"It is {SECRET}"}, None, "its arguments hold a secret"),
        (ANA | {"body": ["It is [secret:KEY]"]}, None, "its arguments hold a secret"),
        *(
            (ANA | {"to": to}, None, 'its target "to" stands in the description of a tool, and not in the goal')
            for to in ("team@x.example", "Team@X.example", "bcc@x.example")
        ),
    ],
)
def test_what_no_grant_may_allow_is_not_offered(arguments: JsonObject, policy: JsonObject | None, why: str) -> None:
    assert offered(call_step("send", "mail.send", **arguments), policy=policy) == [NotOffered("send", "mail.send", why)]


def test_what_goes_out_without_a_question_needs_no_grant() -> None:
    assert offered(call_step("send", "mail.send", **ANA), policy={"rules": [{"allow": "mail.send"}]}) == []


def test_arguments_are_granted_as_the_gate_reads_them() -> None:
    number = tool("mail.send", "write")
    number.input_schema["properties"] = {"to": {"type": "integer"}}
    (found,) = offered(call_step("send", "mail.send", to="5"), of=number)
    assert isinstance(found, Offer)
    assert found.arguments == {"to": 5}


def granted_for(step: JsonObject, *, of: Tool = SEND, **changes: Any) -> list[str]:
    """What is said of a grant, given for the call `send` to Ana, before a run of this step."""
    granter = Granter(PolicySettings(), {"mail": server("mail")}, (of,), Outlet())
    (offer,) = granter.offers([call_step("send", "mail.send", **ANA)], goal="") if of is SEND else (None,)
    bound = offer.bound if isinstance(offer, Offer) else "b"
    conditions: JsonObject = {name: {"equals": value} for name, value in ANA.items()}
    grant = Grant("g_1", "send", "mail.send", conditions, "p", bound, 1, 9.0)
    return granter.unfit([step], [replace(grant, **changes)])


def test_a_grant_that_no_call_of_the_plan_can_use_is_said_with_the_reason() -> None:
    send, unused = call_step("send", "mail.send", **ANA), "the grant for step 'send' (mail.send) is not used: "
    assert granted_for(send) == []
    assert granted_for(send | {"arguments": ANA | {"body": {"$step": "read"}}}) == []
    told = [
        granted_for(call_step("other", "mail.send", **ANA)),
        granted_for(send | {"kind": "compose", "task": "Send it."}),
        granted_for(send, tool="mail.read"),
        granted_for(send | {"arguments": ANA | {"to": "eve@x.example"}}),
        granted_for(send, bound="0"),
        granted_for(send, of=tool("mail.read", "read", ["id"])),
    ]
    assert [text.removeprefix(unused) for (text,) in told] == [
        "the plan has no such call",
        "the plan has no such call",
        "the grant for step 'send' (mail.read) is not used: the plan has no such call",
        "its arguments are others",
        "the tool, its server or the policy was changed since",
        "its tool is not there, or was changed and waits for `servers trust mail`",
    ]


STEPS = [
    call_step("one", "ledger.add_item", key="a", value="first\nsecond"),
    call_step("two", "ledger.add_item", key="b", value={"$step": "one"}),
    call_step("three", "ledger.add_item", key="c", value="x" * 4_001),
]
EXACT = {"key": {"equals": "a"}, "value": {"equals": "first\nsecond"}}


@pytest.mark.e2e
async def test_a_person_grants_call_by_call_exactly_or_under_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ask(*lines: str, uses: int = 1) -> list[JsonObject]:
        with typed(*lines):
            life = Life(uses=uses, days=1)
            given = await ask_grants_of(product.settings, product.store, STEPS, goal="g", life=life)
        assert {grant.plan for grant in given} <= {plan_digest(STEPS)}
        assert {grant.uses for grant in given} <= {uses}
        return [grant.arguments for grant in given]

    async with open_test_product(tmp_path, script=script(*STEPS)) as (product, _):
        await product.check({"steps": STEPS})
        assert await ask("y", "n") == [EXACT]
        shown = capsys.readouterr().out
        assert await ask("what", "", "no", "y", "", "", "{", "glob: '*'", "prefix: wrong", "prefix: b", "") == []
        begins: JsonObject = {"key": {"prefix": "a"}, "value": {"one_of": ["first\nsecond", "x"]}}
        edit = ("e", "prefix: b", "prefix: a", '{one_of: ["first\\nsecond", x]}')
        assert await ask(*edit, "y", "n", uses=3) == [begins]
        told = capsys.readouterr().out
        assert await ask(*edit, "n", "n") == []
        assert await ask("edit", "prefix: a") == []
        assert await ask("no", "y", "", "prefix: x", "no") == []
        fill = ("no", "y", "", "one_of: [1, 2]", "y")
        assert await ask(*fill) == [{"key": {"equals": "b"}, "value": {"one_of": [1, 2]}}]
        assert await ask() == []
    assert '  "value": "first\\nsecond"\n' in shown
    assert '  "value": comes from another step, and is not known yet\n' in shown
    assert "Grant it, once, within 1 day, with exactly these arguments? yes, no or edit? " in shown
    assert "Step three: ledger.add_item can't be granted: its arguments are too long to be shown." in shown
    assert "\n1 call granted.\n" in shown
    assert "What stands in the plan does not meet this." in told
    assert '  value one_of ["first\\nsecond", "x"]\n' in told
    assert "in 3 runs" in told


ODD = [
    "a\r\nb",
    "\x85\u2028",
    "  x \n y",
    "\ttab",
    "yes",
    "1e3",
    "0o7",
    "2026-01-01",
    "'",
    '"',
    "# no",
    "\x07",
    "\U0001f600",
    "a: b",
    "- x",
    "null",
]


def written(path: Path, arguments: Any = ANA) -> GrantFile:
    steps = [{"id": "send", "kind": "call", "tool": "mail.send", "arguments": arguments}]
    conditions = {name: {"equals": value} for name, value in arguments.items()}
    grant = Grant("g_1", "send", "mail.send", conditions, plan_digest(steps), "b", 1, 1_800_000_000.123)
    file = GrantFile({"steps": steps}, (grant,))
    path.write_text(as_text(sealed(file), path), encoding="utf-8", newline="")
    return file


@pytest.mark.parametrize("name", ["g.yaml", "g.json"])
@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_a_file_gives_back_every_letter_of_what_was_granted(tmp_path: Path, text: str, name: str) -> None:
    file = written(tmp_path / name, {"to": text, "more": {text: [text, 1, 1.5, None, True]}})
    assert read_grant_file(tmp_path / name) == file


@pytest.mark.parametrize("name", ["plan.yaml", "plan.json"])
def test_data_in_which_one_value_stands_twice_is_written_out_twice(tmp_path: Path, name: str) -> None:
    value = {"list": [1]}
    data: JsonObject = {"steps": [value], "grants": [{"equals": value}]}
    path = tmp_path / name
    path.write_text(as_text(data, path), encoding="utf-8")
    assert read_document(path, otherwise="").data == data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("to: ana", "to: eve"),
        ("equals: ana", "equals: eve"),
        ("uses: 1", "uses: 9"),
        ("bound: b", "bound: c"),
        ("2027-", "2037-"),
        ("step: send", "step: sent"),
        ("equals: Hello", "prefix: Hello"),
        ("seal: ", "seal: 0"),
    ],
    ids=["plan", "argument", "uses", "bound", "expiry", "step", "condition", "seal"],
)
def test_a_changed_file_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "g.yaml"
    written(path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageProblem, match="its grants are void: it was changed after they were given"):
        read_grant_file(path)


def test_a_comment_changes_nothing_and_another_users_key_does(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    written(path)
    path.write_text(f"# mine\n{path.read_text()}")
    assert len(read_grant_file(path).grants) == 1
    key = state_folder() / "grants.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    with pytest.raises(UsageProblem, match="or another user gave them"):
        read_grant_file(path)


@pytest.mark.parametrize("text", ["steps: []", "[]", "steps: []\ngrants: []\nseal: a\nseal: b", "a: b: c", None])
def test_a_file_without_grants_is_refused_with_the_way_to_one(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "g.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageProblem, match=r"g\.yaml"):
        read_grant_file(path)
