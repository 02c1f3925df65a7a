"""`steprelay policy`: what the policy says of a call, and a table of calls that it is held to."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from journal.world import World
from server.terminal.exit_codes import ExitCode, UsageProblem

from .opening import load, run_async
from .options import AsJson, Config

if TYPE_CHECKING:
    from downstream.gate.explain import Decided, Explanation
    from downstream.gate.policy import Reading
    from journal.outlet import Outlet
    from journal.values import Json, JsonObject
    from server.known_tools import Known
    from server.policy_cases import PolicyCase, Tested
    from server.settings import Settings


def explain(
    tool: Annotated[str, typer.Argument(metavar="SERVER.TOOL", show_default=False)],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="The arguments of the call, an object.")] = "{}",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Say what would become of a call, and which rule decides.

    Nothing is called. A server is opened only if its tools were never listed and `effects` does not say the class.
    """
    settings, given = load(config, "nothing"), _arguments(arguments)

    async def work() -> ExitCode:
        from downstream.gate.explain import explain as explained
        from server.known_tools import open_known_tools
        from server.policy_cases import PolicyCase, flow_of

        case = PolicyCase(tool=tool, arguments=given, expect="ask")
        async with open_known_tools(settings, world=World()) as known:
            found = await known.find(tool)
            told = explained(settings.policy, await flow_of(case, found, settings, known))
        if as_json:
            _echo_json(settings.outlet.json(_as_json(told, found, settings)))
        else:
            _echo(_lines(told, found, settings), settings.outlet)
        _warn(settings)
        return ExitCode.OK

    run_async(work, settings)


def hold_to(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table of cases, YAML or JSON.", show_default=False)],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Run a table of calls, each with what is expected of the policy, and print those that differ.

    Exit code 4 if any does.
    """
    cases, settings = _cases(file), load(config, "nothing")

    async def work() -> ExitCode:
        from server.known_tools import open_known_tools
        from server.policy_cases import run_cases

        async with open_known_tools(settings, world=World()) as known:
            tested = await run_cases(cases, settings, known)
        failed = [each for each in tested if each.differs]
        if as_json:
            shown = [_case_as_json(each, settings) for each in tested]
            counts = {"passed": len(tested) - len(failed), "failed": len(failed)}
            _echo_json(settings.outlet.json({"cases": shown, **counts}))
        else:
            _echo(_test_lines(tested, settings), settings.outlet)
        _warn(settings)
        return ExitCode.FAILED if failed else ExitCode.OK

    run_async(work, settings)


def _warn(settings: "Settings") -> None:
    from server.page.passkey_file import passkey_warnings

    for text in passkey_warnings(settings.policy):
        typer.echo(f"steprelay: {text}", err=True)


def _arguments(text: str) -> "JsonObject":
    """Raises UsageProblem for what is no JSON object, or holds a key twice."""
    from server.settings_file.json_text import read_json
    from server.settings_file.located import TextError, is_map

    try:
        located = read_json(text)
    except TextError as error:
        raise UsageProblem(f"the arguments are no JSON: {error}") from error
    for place, _ in located.repeated:
        raise UsageProblem(f"the arguments hold {place[-1]!r} twice; keep one")
    if not is_map(located.data):
        raise UsageProblem('the arguments are no JSON object; write {"name": value}')
    return located.data


def _cases(path: Path) -> "list[PolicyCase]":
    from server.policy_cases import read_cases
    from server.settings_file.document import SettingsError

    try:
        return read_cases(path)
    except SettingsError as error:
        raise UsageProblem(str(error)) from error


def _echo_json(data: "Json") -> None:
    typer.echo(json.dumps(data, ensure_ascii=False))


def _echo(lines: list[str], outlet: "Outlet") -> None:
    from downstream.gate.prompt_text import escaped

    for line in lines:
        typer.echo(escaped(outlet.text(line)))


def _as_json(told: "Explanation", found: "Known", settings: "Settings") -> "JsonObject":
    readings = {reading.number: reading for reading in told.readings}
    return {
        "tool": told.tool.full_name,
        "class": told.tool.class_,
        "class_from": found.source,
        "default": told.default,
        **_decision(told),
        "rules": [
            {
                "number": number,
                "rule": rule.text,
                "decides": number in told.deciders,
                "fits": number in readings and readings[number].fits,
                "why": _why(number, readings.get(number)),
            }
            for number, rule in enumerate(settings.policy.rules)
        ],
        "targets": [{"pointer": pointer, "value": value} for pointer, value in told.targets],
        "tainted": _decided_as_json(told.tainted),
        "misfits": list(told.misfits),
    }


def _case_as_json(tested: "Tested", settings: "Settings") -> "JsonObject":
    case = tested.case
    expected = {"verdict": case.expect, "level": case.level, "rule": case.rule}
    return {
        "number": tested.number,
        "tool": case.tool,
        "ok": not tested.differs,
        "expected": expected,
        "got": _decision(tested.explanation),
        "differs": list(tested.differs),
    }


def _decision(told: "Explanation") -> "JsonObject":
    """`rule` is the first that decides, null where the class does."""
    return {"rule": told.deciders[0] if told.deciders else None, **_decided_as_json(told.decided)}


def _decided_as_json(decided: "Decided") -> "JsonObject":
    return {"verdict": decided.verb, "level": decided.level, "reasons": list(decided.reasons)}


def _lines(told: "Explanation", found: "Known", settings: "Settings") -> list[str]:
    how = {"listed": "", "effects": ", by effects; its arguments are not known yet", "given": ""}[found.source]
    lines = [f"{told.tool.full_name}: class {told.tool.class_}{how}; without a rule: {told.default}"]
    lines += [f"  {_verdict(told.decided)}, by {_by(told, settings)}"]
    lines += [f"  because {reason}" for reason in told.decided.reasons]
    lines += [f"  targets: {', '.join(_named(*target) for target in told.targets) or 'none'}"]
    same = told.tainted.verb == told.decided.verb and told.tainted.level == told.decided.level
    raised = "the same" if same else _verdict(told.tainted)
    lines += [f"  with arguments that come from outside: {raised}"]
    lines += [f"  the call would be refused, whatever the policy: {misfit}" for misfit in told.misfits]
    readings = {reading.number: reading for reading in told.readings}
    rules = list(enumerate(settings.policy.rules))
    lines += ["  the rules:"] if rules else ["  there are no rules"]
    for number, rule in rules:
        reading = readings.get(number)
        state = "decides" if number in told.deciders else "fits, and a stricter one decides"
        state = state if reading is not None and reading.fits else "does not fit"
        lines += [f"    policy.rules[{number}] {rule.text}: {state}; {_why(number, reading)}"]
    return lines


def _why(number: int, reading: "Reading | None") -> str:
    from downstream.gate.explain import condition_text

    if reading is None:
        return "it names other tools"
    return "; ".join(map(condition_text, reading.tried)) or "it names the tool, without conditions"


def _verdict(decided: "Decided") -> str:
    return f"{decided.verb}, level {decided.level}" if decided.level else decided.verb


def _by(told: "Explanation", settings: "Settings") -> str:
    if not told.deciders:
        return f"the default of class {told.tool.class_}"
    rules = settings.policy.rules
    return " and ".join(f"policy.rules[{number}] ({rules[number].text})" for number in told.deciders)


def _named(pointer: str, value: "Json") -> str:
    from downstream.gate.explain import brief

    return f"{pointer} {brief(value)}"


def _test_lines(tested: "list[Tested]", settings: "Settings") -> list[str]:
    lines: list[str] = []
    for each in tested:
        if each.differs:
            call = f"{each.case.tool} {json.dumps(each.case.arguments, ensure_ascii=False)}"
            lines += [f"cases[{each.number}] {call}: {'; '.join(each.differs)}"]
            lines += [f"  {_verdict(each.explanation.decided)}, by {_by(each.explanation, settings)}"]
            lines += [f"  because {reason}" for reason in each.explanation.decided.reasons]
    failed = sum(bool(each.differs) for each in tested)
    return [*lines, f"{len(tested) - failed} of {len(tested)} cases are as expected."]
