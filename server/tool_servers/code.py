"""A tool server that runs one Python snippet in a sandbox: no files, no environment, no network, limited time."""

import ast
import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from journal.values import Json

# Imported at the first call: the server starts without it, and says what is missing where it can't be imported.
if TYPE_CHECKING:
    from pydantic_monty import MontyError, MontySession

CODE_MAX = 100_000
STDOUT_MAX = 100_000
RESULT_MAX = 1_000_000
NESTING_MAX = 64
TOLD_MAX = 2_000
SECONDS = 5.0
MEMORY_MIB = 64
PARALLEL = 4
_LIMITS = f"The sandbox has {SECONDS:g} s, {MEMORY_MIB} MiB, and no files, environment, network or packages."
_INSTALL = "install it where this server runs, with: pip install 'pydantic-monty>=1.4'"
_NO_VALUE = "\n[the value of the last line is not known: its syntax is too new for this server; print it instead]"
# Only this text leaves the sandbox. A rich value would be built again in this process, outside the limits: a set of
# nested tuples that takes the sandbox a millisecond can take minutes here.
_RENDER = """
import json as __json__
try:
    __result__ = __json__.dumps(__result__, allow_nan=False)
except Exception:
    __result__ = __json__.dumps(repr(__result__))
__result__
"""


class RunResult(BaseModel):
    """`result` is the last expression's value, as its repr where JSON can't say it; `stdout` is what was printed."""

    model_config = ConfigDict(frozen=True)

    result: Json
    stdout: str


@dataclass
class _Output:
    """What a snippet printed, up to a limit."""

    text: str = ""
    cut: bool = False

    def __call__(self, _stream: str, text: str) -> None:
        room = STDOUT_MAX - len(self.text)
        self.text += text[:room]
        self.cut = self.cut or len(text) > room

    def shown(self) -> str:
        return f"{self.text}\n[the rest is cut: at most {STDOUT_MAX:,} characters are kept]" if self.cut else self.text


def build_code_server() -> MCPServer:
    """A server with one tool, `run`; each call has a sandbox process of its own that ends with it."""
    places = anyio.CapacityLimiter(PARALLEL)
    server = MCPServer(
        "code",
        instructions="Runs Python for calculations and for reshaping data that is given in the code. " + _LIMITS,
        log_level="WARNING",
    )

    @server.tool(
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
    )
    async def run(
        code: Annotated[
            str, Field(description="Python source", json_schema_extra={"minLength": 1, "maxLength": CODE_MAX})
        ],
    ) -> RunResult:
        """Run a Python snippet and return the value of its last expression and what it printed.

        A subset of Python with parts of the standard library (math, json, re, datetime, collections and the like);
        5 seconds, 64 MiB, no files, environment, network or packages. Nothing is kept between calls."""
        if not code.strip():
            raise ToolError("'code' is empty; give Python source whose last line is an expression")
        if len(code) > CODE_MAX:
            raise ToolError(f"'code' has {len(code):,} characters; at most {CODE_MAX:,} are taken")
        return await anyio.to_thread.run_sync(_run, code, limiter=places)

    return server


def _run(code: str) -> RunResult:
    try:
        from pydantic_monty import Monty, MontyError, ResourceLimits
    except ImportError as error:
        raise ToolError(f"the sandbox pydantic-monty is not installed; {_INSTALL}") from error
    limits = ResourceLimits(max_feed_duration_secs=SECONDS, max_memory=MEMORY_MIB * 1024 * 1024)
    output = _Output()
    try:
        with Monty(max_processes=1) as pool, pool.checkout(limits=limits, os_policy={"sleep": "zero"}) as session:
            result = _feed(session, code, output=output)
    except MontyError as error:
        raise ToolError(_failure(error, output)) from error
    except (OSError, RuntimeError) as error:
        raise ToolError(f"the sandbox could not start ({error}); {_INSTALL}") from error
    return RunResult(result=result, stdout=output.shown())


def _feed(session: "MontySession", code: str, *, output: _Output) -> Json:
    """Run the snippet; its last expression's value leaves the sandbox as JSON text, made inside its limits."""
    # Line ends as Python reads them, so that positions are the parser's; half characters can't be passed on.
    code = code.replace("\r\n", "\n").replace("\r", "\n").encode(errors="replace").decode()
    try:
        start = _last_expression(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The sandbox may take what this Python can't parse. The last line keeps its value from leaving it.
        session.feed_run(code + "\nNone", print_callback=output)
        output.text += _NO_VALUE
        return None
    if start is None:
        session.feed_run(code, print_callback=output)
        return None
    session.feed_run(code[:start] + "__result__ = " + code[start:], print_callback=output)
    return _parsed(session.feed_run(_RENDER, print_callback=output))


def _last_expression(code: str) -> int | None:
    """Where the snippet's last statement begins, if that is an expression. Raises what `ast.parse` does."""
    body = ast.parse(code).body
    if not body or not isinstance(body[-1], ast.Expr):
        return None
    *before, line = code.split("\n")[: body[-1].lineno]
    return sum(len(earlier) + 1 for earlier in before) + len(line.encode()[: body[-1].col_offset].decode())


def _parsed(text: str) -> Json:
    way_out = "end the snippet with a part or a summary"
    if len(text) > RESULT_MAX:
        raise ToolError(f"the result has {len(text):,} characters and at most {RESULT_MAX:,} are returned; {way_out}")
    structure = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    depth = max(accumulate((character in "[{") - (character in "]}") for character in structure), default=0)
    if depth > NESTING_MAX:
        raise ToolError(f"the result is nested {depth} levels deep and at most {NESTING_MAX} are returned; {way_out}")
    return json.loads(text)


def _failure(error: "MontyError", output: _Output) -> str:
    from pydantic_monty import MontyRuntimeError, MontySyntaxError

    told = error.display() if isinstance(error, MontyRuntimeError | MontySyntaxError) else str(error)
    printed = f"\nIt had printed:\n{output.text[-TOLD_MAX:]}" if output.text else ""
    return f"the snippet failed: {told[-TOLD_MAX:]}\n{_LIMITS}{printed}"
