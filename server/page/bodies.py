"""What the page's script sends, read with care: JSON of a known shape and a bounded size."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from downstream.gate.prompt_text import LARGEST_ARGUMENTS
from journal.errors import SteprelayError

LARGEST_BODY = 4 * LARGEST_ARGUMENTS
"""In bytes."""


class Body(BaseModel):
    """The body of a request; each has a class of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Taken = TypeVar("Taken", bound=Body)


class Refused(SteprelayError):
    """A request that is answered with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


async def read_body(request: Request, kind: type[Taken]) -> Taken:
    """Raises Refused."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused(415, "the body must be JSON")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise Refused(413, f"the body is above {LARGEST_BODY} bytes")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, each["loc"])) or "the body" for each in error.errors())
        raise Refused(400, f"not as the page sends it: {places}") from error
