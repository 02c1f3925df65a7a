"""Secrets in a call: nobody sees more than placeholders, and only a secret's own server gets it filled in again."""

from dataclasses import replace

from downstream.door import Arguments, Refused, ToolCall
from downstream.json_shape import is_object, leaves
from downstream.tools import Tool
from journal.outlet import Outlet
from journal.values import Json, JsonObject

from .argument_reading import read_arguments
from .policy import Verdict
from .prompt_text import quoted
from .targets import argument_of

_NAMED = 8
"""A reason names so many at most; the prompt shows all of them anyway."""


def masked(call: ToolCall, outlet: Outlet) -> ToolCall:
    """The call with placeholders in place of secrets: what is judged, asked, hashed, written down and shown."""
    clean = outlet.foreign(call.arguments.data)
    # The outlet also changes what is no text at all, which is to be refused and not sent as something else.
    if clean == call.arguments.data or not is_object(clean) or not outlet.names_in(clean):
        return call
    # Names of members may be others now, so that no pointer tells any more what came from where.
    return replace(call, arguments=Arguments(clean, call.arguments.joined))


def filled_in(tool: Tool, arguments: JsonObject, outlet: Outlet) -> JsonObject:
    """The arguments as they go to the tool's server: with its own secrets, read by its schema, and no others."""
    filled = outlet.restored(arguments, tool.server)
    if filled == arguments or not is_object(filled):
        return arguments
    return read_arguments(tool.input_schema, Arguments(filled, frozenset())).arguments.data


def secrets_raise(
    verdict: Verdict, tool: Tool, *, arguments: JsonObject, targets: list[tuple[str, Json]], outlet: Outlet
) -> Verdict | Refused:
    """The verdict, where the arguments hold placeholders.

    A read gets its server's own secrets back. Any other call could hand them on, so a person is asked; not so about a
    target, which nobody could be shown. No secret goes into a target at another server, not even by its placeholder.
    """
    held = [(pointer, name) for pointer, value in leaves(arguments) for name in outlet.names_in(value)]
    if not held or verdict.verb == "deny":
        return verdict
    aimed = [(quoted(argument_of(pointer)), name) for pointer, value in targets for name in outlet.names_in(value)]
    for target, name in aimed:
        if tool.server not in outlet.owners(name):
            return Refused(tool.full_name, _not_for(tool, target, name, outlet), by="gate", correctable=True)
    own = [f"{name} in {quoted(argument_of(at))}" for at, name in held if tool.server in outlet.owners(name)]
    if own and tool.class_ != "read":
        places = ", ".join(list(dict.fromkeys(own))[:_NAMED])
        verdict = verdict.asking(
            "person", f"{tool.server} is sent secrets of its own, which it could hand on: {places}"
        )
    if aimed and verdict.verb == "ask":
        reason = f"its target {aimed[0][0]} holds a secret, which nobody can be shown; take the secret out of the call"
        return Refused(tool.full_name, reason, by="gate")
    return verdict


def _not_for(tool: Tool, target: str, name: str, outlet: Outlet) -> str:
    whose = ", ".join(sorted(outlet.owners(name)))
    why = (
        f"is a secret of {whose} and is handed to nobody else" if whose else "is a secret that no tool server is handed"
    )
    return f"the target {target} of {tool.full_name} holds [secret:{name}], which {why}; leave it out"
