"""The fault table: what a worker and a person see of each fault of a tool server, on stdio and over HTTP, in both eras.

Each row also prints how long it took, and checks that a neighbour's calls went on meanwhile and that nothing leaked.
"""

import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from fault_table import see
from faulty_http import open_faulty_http, well, well_by_events
from http_faults import FAULTS, SSE_FAULTS, once, refuse_after_listing
from tool_connections import by_hand, remote
from toy_servers.by_hand import MODERN

from downstream.settings import ServerSettings

OLD = "2025-11-25"
BOTH = (OLD, MODERN)
UNKNOWN = "unknown"
WELL = "ok: looked"
NOT_YET = "nothing yet"
LEFT_OUT = "tool server 'ill' is left out: "
BAD_SHAPE = "failed: ill ran the call, but its answer does not fit what it promised"


@dataclass(frozen=True)
class Row:
    """`worker`, `person` and `after` (the next call of the server) are beginnings. `quick` rows are in every run."""

    fault: str
    worker: str = NOT_YET
    person: str = UNKNOWN
    after: str = WELL
    versions: tuple[str, ...] = BOTH
    quick: bool = False
    timeout: float = 30.0


def fine(fault: str, worker: str = WELL, *, quick: bool = False) -> Row:
    """A fault that nobody notices."""
    return Row(fault, worker, "", quick=quick)


STDIO = [
    Row("exit_at_start", "refused: ", LEFT_OUT + "it ended before it answered", "refused: ", quick=True),
    Row("hang_at_start", "refused: ", LEFT_OUT + "it did not answer within 1 s", "refused: "),
    Row("exit_in_list", "refused: ", LEFT_OUT + "it ended before it answered", "refused: "),
    Row("downgrade", "refused: ", LEFT_OUT + "it cannot be opened", "refused: ", versions=(OLD,)),
    Row("exit_in_call", quick=True),
    Row("exit_after_effect"),
    Row("exit_in_reply"),
    fine("reply_without_newline", "ok: whole"),
    Row("hang", timeout=0.5),
    Row("stuck", after=NOT_YET, timeout=0.5),
    Row("close_stdout", after=NOT_YET, timeout=0.5),
    fine("drip", "ok: dripped"),
    fine("flood_stdout"),
    fine("flood_stderr", quick=True),
    fine("flood_progress"),
    fine("flood_log"),
    fine("one_byte", "ok: x"),
    fine("one_mib", "ok: [1,048,576 characters"),
    fine("seven_mib", "ok: [7,340,032 characters"),
    Row("nine_mib", "failed: ill ran the call, but sent a line of more than 8 MiB", "", quick=True),
    Row("nine_mib_id_last", "failed: ill ran the call, but sent a line of more than 8 MiB", ""),
    Row("nine_mib_of_nothing"),
    Row("hundred_mib"),
    fine("invalid_utf8", "ok: caf\ufffd \ufffd\ufffd", quick=True),
    fine("escaped_nul", "ok: abc"),
    Row("raw_nul"),
    Row("deep_300"),
    Row("deep_100000"),
    Row("huge_int"),
    fine("big_int", 'ok: {"n": 9999999999'),
    fine("twice", "ok: first"),
    fine("unknown_id", quick=True),
    fine("text_id"),
    fine("null_id"),
    fine("empty_lines"),
    fine("no_object"),
    fine("wrong_jsonrpc"),
    fine("bad_notification"),
    fine("cancels_it"),
    fine("asks_roots"),
    fine("asks_sampling", quick=True),
    fine("unknown_method"),
    fine("junk_before_on_line", "ok: lost"),
    fine("batch", "ok: one of a batch"),
    fine("crlf", "ok: ended as on Windows"),
    Row("content_no_list", BAD_SHAPE, "", quick=True),
    Row("unknown_content", BAD_SHAPE, ""),
    Row("unknown_result_type", BAD_SHAPE, ""),
    Row("result_is_number"),
    Row("result_is_null"),
    Row("neither"),
    Row("error_is_text"),
    Row("error_internal", "failed: ill answered with an error: it broke", ""),
    Row("error_params", "failed: ill did not take the call: n is wrong", ""),
    Row("input_required", BAD_SHAPE, "", versions=(OLD,)),
    Row("input_required", WELL, "", versions=(MODERN,)),
    Row("sampling_required", BAD_SHAPE, "", versions=(OLD,)),
    Row("sampling_required", "failed: ill asks for sampling/createMessage", "", versions=(MODERN,)),
]

HTTP = [
    Row("401", "failed: ill refused the call: it wants a login", "", quick=True),
    Row("403", "failed: ill refused the call: it does not allow this", ""),
    Row("404", "failed: ill refused the call: nothing answers at its address", ""),
    Row("429", "failed: ill refused the call: it wants fewer calls", ""),
    Row("500", quick=True),
    Row("502 with a page"),
    Row("503"),
    Row("202"),
    Row("redirect to another host", "failed: ill did not take the call: Redirect to http://169.254", ""),
    Row("redirect to a page", "failed: ill did not take the call: Redirect to", ""),
    Row("reset", quick=True),
    Row("closed"),
    Row("hang", timeout=0.5),
    fine("drip"),
    Row("json cut"),
    fine("json of 7 MiB", "ok: [7,340,032 characters"),
    Row("json of 100 MiB", "failed: ill ran the call, but sent an answer of more than 16 MiB", ""),
    Row("gzip of 40 MiB", quick=True),
    Row("gzip broken"),
    Row("events in gzip"),
    fine("no encoding, named", quick=True),
    Row("no json"),
    Row("nothing"),
    Row("a page"),
    Row("wrong id", timeout=0.5),
    Row("wrong shape", BAD_SHAPE, ""),
    fine("invalid utf-8", "ok: caf\ufffd"),
    fine("lost session", quick=True),
    Row("error", "failed: ill answered with an error: it broke", ""),
    fine("events", quick=True),
    fine("events twice", "ok: first"),
    fine("events of 15 MiB", "ok: [15,728,640 characters"),
    Row("events of 17 MiB"),
    fine("events flooded"),
    Row("events with junk"),
    Row("events cut", quick=True),
    fine("events resumed", quick=True),
    Row("events never resumed"),
]

SSE = [
    Row("401", "failed: ill refused the call: it wants a login", "", versions=(OLD,)),
    Row("500", versions=(OLD,)),
    Row("reset", versions=(OLD,)),
    Row("hang", versions=(OLD,), timeout=0.5),
    Row("event of 15 MiB", "ok: [15,728,640 characters", "", versions=(OLD,)),
    Row("event of 17 MiB", versions=(OLD,)),
    Row("stream cut", versions=(OLD,), quick=True),
]


def cases(rows: Iterable[Row]) -> list[object]:
    """Each row in each of its versions; of the quick ones one version is in every run, the rest is for the slow run."""
    made: list[object] = []
    for row in rows:
        for version in row.versions:
            quick = row.quick and version == row.versions[-1]
            mark = pytest.mark.e2e if quick else pytest.mark.slow
            made.append(pytest.param(row, version, id=f"{row.fault}-{version}", marks=mark))
    return made


async def check(row: Row, folder: Path, ill: AbstractAsyncContextManager[ServerSettings], *, name: str) -> None:
    with anyio.fail_after(60):
        seen = await see(folder, ill, name)
    expected = (row.worker, row.person, row.after)
    found = (seen.worker, seen.person, seen.after)
    begun = [text[: len(start)] if start else text for start, text in zip(expected, found, strict=True)]
    assert tuple(begun) == expected, found


@pytest.mark.parametrize(("row", "version"), cases(STDIO))
async def test_a_fault_on_stdio(tmp_path: Path, row: Row, version: str) -> None:
    start = 1.0 if row.fault == "hang_at_start" else 20.0
    ill = by_hand("ill", row.fault, version, tmp_path / "state", call_timeout=row.timeout, start_timeout=start)
    await check(row, tmp_path, nullcontext(ill), name=f"stdio {version[:4]} {row.fault}")


@pytest.mark.parametrize(("row", "version"), cases(HTTP))
async def test_a_fault_over_http(tmp_path: Path, row: Row, version: str) -> None:
    asked: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncGenerator[ServerSettings]:
        async with open_faulty_http(once(FAULTS[row.fault], well), version=version) as server:
            yield remote("ill", server.url, call_timeout=row.timeout)
            asked.extend(server.asked)

    await check(row, tmp_path, opened(), name=f"http {version[:4]} {row.fault}")
    # The faulty call and the one after it: nothing that may have run is sent again.
    assert asked.count("tools/call") == 2 + (row.fault == "lost session")


@pytest.mark.parametrize(("row", "version"), cases(SSE))
async def test_a_fault_over_http_and_sse(tmp_path: Path, row: Row, version: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[ServerSettings]:
        answer = once(SSE_FAULTS[row.fault], well_by_events)
        async with open_faulty_http(answer, version=version, path="sse") as server:
            yield remote("ill", server.url, call_timeout=row.timeout)

    await check(row, tmp_path, opened(), name=f"sse {version[:4]} {row.fault}")


@pytest.mark.e2e
@pytest.mark.parametrize("version", BOTH)
async def test_a_server_over_http_that_nobody_listens_for_any_more(tmp_path: Path, version: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[ServerSettings]:
        async with open_faulty_http(well, version=version) as server:
            server.protocol = refuse_after_listing
            yield remote("ill", server.url)

    gone = "failed: tool server 'ill' cannot be used: it cannot be opened"
    await check(Row("refused", gone, "", gone), tmp_path, opened(), name=f"http {version[:4]} refused")


def test_the_table_has_the_faults_that_it_promises() -> None:
    rows = {("stdio", row.fault) for row in STDIO} | {("http", row.fault) for row in HTTP}
    assert len(rows) >= 40
    assert ({row.fault for row in HTTP}, {row.fault for row in SSE}) == (set(FAULTS), set(SSE_FAULTS))
    sys.stdout.write(f"{len(rows)} faults, {len(cases(STDIO)) + len(cases(HTTP)) + len(cases(SSE))} rows\n")
