"""The bundled servers as a host starts them: a process of their own, spoken to over stdio."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tool_calls import ERAS

ROOT = Path(__file__).parent.parent
LAUNCHER = """
import sys
from pathlib import Path
from server import tool_servers
getattr(tool_servers, f"build_{sys.argv[1]}_server")(*map(Path, sys.argv[2:])).run()
"""


def launched(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-c", LAUNCHER, *arguments], env={"PYTHONPATH": str(ROOT)}
    )


async def structured(parameters: StdioServerParameters, tool: str, arguments: dict[str, Any], *, mode: str) -> Any:
    with anyio.fail_after(30):
        async with Client(parameters, mode=mode) as client:
            return (await client.call_tool(tool, arguments)).structured_content


@pytest.mark.e2e
@pytest.mark.parametrize("mode", ERAS)
async def test_each_server_answers_over_stdio(tmp_path: Path, mode: str) -> None:
    (tmp_path / "a.md").write_text("hello zeppelin")
    mail = {"to": "ann@example.org", "subject": "s", "body": "b"}
    note = await structured(launched("notes", str(tmp_path)), "read", {"path": "a.md"}, mode=mode)
    found = await structured(launched("notes", str(tmp_path)), "search", {"query": "zeppelin"}, mode=mode)
    value = await structured(launched("code"), "run", {"code": "print('p')\n6 * 7"}, mode=mode)
    sent = await structured(launched("outbox", str(tmp_path)), "send", mail, mode=mode)
    assert note == {"path": "a.md", "text": "hello zeppelin"}
    assert [hit["path"] for hit in found["results"]] == ["a.md"]
    assert value == {"result": 42, "stdout": "p\n"}
    assert (tmp_path / sent["path"]).is_file()


@pytest.mark.e2e
def test_building_a_server_imports_neither_a_model_library_nor_the_sandbox() -> None:
    program = (
        "import sys; from server.tool_servers import build_code_server; build_code_server(); "
        "sys.exit(' '.join({'litellm', 'pydantic_monty', 'ruamel', 'typer'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.stderr.strip() == ""
