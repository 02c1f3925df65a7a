"""What a model is asked, with placeholders in place of secrets: models see none, whoever wrote it down."""

from dataclasses import replace
from typing import cast

from downstream.model_port import Function, Message, ModelRequest
from journal.outlet import Outlet
from journal.values import JsonObject


def without_secrets(request: ModelRequest, outlet: Outlet) -> ModelRequest:
    """The request as it may leave, with the texts of tool definitions in it also."""
    return replace(
        request,
        messages=tuple(_message(message, outlet) for message in request.messages),
        functions=tuple(_function(function, outlet) for function in request.functions),
        schema=None if request.schema is None else _object(request.schema, outlet),
    )


def _message(message: Message, outlet: Outlet) -> Message:
    uses = tuple(replace(use, arguments=outlet.text(use.arguments)) for use in message.uses)
    raw = None if message.raw is None else _object(message.raw, outlet)
    return replace(message, content=outlet.text(message.content), uses=uses, raw=raw)


def _function(function: Function, outlet: Outlet) -> Function:
    described, parameters = outlet.text(function.description), _object(function.parameters, outlet)
    return replace(function, description=described, parameters=parameters)


def _object(data: JsonObject, outlet: Outlet) -> JsonObject:
    return cast("JsonObject", outlet.json(data))
