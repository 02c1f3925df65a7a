"""The code server: what a snippet returns, and that it gets at nothing and stops nothing."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from tool_calls import ERAS, hints_of, refusal_of, text_of, tools_of, value_of

from server.tool_servers import build_code_server

LIMITS = "The sandbox has 5 s, 64 MiB, and no files, environment, network or packages."
CLASS = "class A:\n  def __init__(self): self.x = 3\n  def __repr__(self): return f'A({self.x})'\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\n"


async def run(code: str, *, mode: str = "auto") -> dict[str, Any]:
    value: dict[str, Any] = await value_of(build_code_server(), "run", {"code": code}, mode=mode)
    return value


async def refused(code: str) -> str:
    return await refusal_of(build_code_server(), "run", {"code": code})


@pytest.mark.parametrize("mode", ERAS)
async def test_a_snippet_returns_its_last_value_and_what_it_printed(mode: str) -> None:
    code = "import math\nprint('radius', 2)\n{'area': round(math.pi * 4, 2)}"
    assert await run(code, mode=mode) == {"result": {"area": 12.57}, "stdout": "radius 2\n"}


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tool_says_that_it_only_reads_in_a_closed_world(mode: str) -> None:
    tools = await tools_of(build_code_server(), mode=mode)
    assert {name: hints_of(tool) for name, tool in tools.items()} == {"run": (True, False, True, False)}


@pytest.mark.parametrize(
    ("code", "result"),
    [
        pytest.param("(1,\n2)", [1, 2], id="tuple over two lines"),
        pytest.param("x = 2; y = 'ü'; (x, y + 'ü')  # end", [2, "üü"], id="after semicolons"),
        pytest.param("x = 'ü'\r\n'''a\r\nb''' + x\r\n", "a\nbü", id="other line ends"),
        pytest.param("x = 1\rx + 1", 2, id="old line ends"),
        pytest.param("async def f():\n  return 3\nawait f()", 3, id="await"),
        pytest.param("x = 5", None, id="assignment"),
        pytest.param("def f():\n  return 1", None, id="definition"),
        pytest.param("# nothing", None, id="comment"),
        pytest.param("print()", None, id="print"),
        pytest.param("{1: True, 'b': None}", {"1": True, "b": None}, id="keys that are numbers"),
        pytest.param("10 ** 400", 10**400, id="large number"),
        pytest.param("float('nan')", "nan", id="not a number"),
        pytest.param("{'a': {1, 2}}", "{'a': {1, 2}}", id="set"),
        pytest.param("b'ab'", "b'ab'", id="bytes"),
        pytest.param(CLASS + "A()", "A(3)", id="object with its own repr"),
        pytest.param(DATACLASS + "P(3)", "P(x=3)", id="dataclass"),
        pytest.param("x = []\nx.append(x)\nx", "[[...]]", id="cycle"),
        pytest.param("'\ud800'", "?", id="half a character"),
        pytest.param("import time\ntime.sleep(60)\n'slept'", "slept", id="sleep returns at once"),
        pytest.param("def repr(x): return 7\n{1}", 7, id="its own repr function"),
    ],
)
async def test_the_last_expression_is_returned_as_json_or_as_its_repr(code: str, result: object) -> None:
    assert (await run(code))["result"] == result


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param("open('/etc/passwd').read()", "PermissionError", id="open"),
        pytest.param("open('x.txt', 'w').write('x')", "PermissionError", id="open to write"),
        pytest.param("from pathlib import Path\nPath('/etc/passwd').read_text()", "PermissionError", id="pathlib"),
        pytest.param("from pathlib import Path\nlist(Path('/').iterdir())", "PermissionError", id="folder"),
        pytest.param("import os\nos.listdir('/')", "PermissionError", id="listdir"),
        pytest.param("import os\nos.system('id')", "AttributeError", id="system"),
        pytest.param("import os\nos.environ", "RuntimeError", id="environ"),
        pytest.param("import os\nos.getenv('HOME')", "RuntimeError", id="getenv"),
        pytest.param("__import__('os')", "NameError", id="__import__"),
        pytest.param("__builtins__", "NameError", id="__builtins__"),
        pytest.param("().__class__.__base__.__subclasses__()", "AttributeError", id="subclasses"),
        pytest.param("exec('import socket')", "ModuleNotFoundError", id="socket in exec"),
        pytest.param("import socket", "ModuleNotFoundError", id="socket"),
        pytest.param("import urllib.request", "ModuleNotFoundError", id="urllib"),
        pytest.param("import httpx", "ModuleNotFoundError", id="package"),
        pytest.param("import subprocess", "ModuleNotFoundError", id="subprocess"),
        pytest.param("import ctypes", "ModuleNotFoundError", id="ctypes"),
        pytest.param("import importlib", "ModuleNotFoundError", id="importlib"),
        pytest.param("input()", "NameError", id="input"),
    ],
)
async def test_a_snippet_gets_at_nothing_of_this_machine(code: str, error: str) -> None:
    text = await refused(code)
    assert (error in text, text.endswith(LIMITS)) == (True, True)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param("x = 1\nx / 0", "line 2, in <module>", id="line of the error"),
        pytest.param("x = 1\nx / 0", "ZeroDivisionError: division by zero", id="message"),
        pytest.param("x = (", "SyntaxError", id="syntax"),
        pytest.param("raise ValueError('mine')", "ValueError: mine", id="raised"),
        pytest.param("print('before')\n1/0", "It had printed:\nbefore", id="printed before"),
        pytest.param("def f(): return f()\nf()", "RecursionError", id="recursion"),
        pytest.param("(" * 5000, "SyntaxError", id="brackets"),
        pytest.param("1" + "+1" * 45_000, "SyntaxError", id="long sum"),
        pytest.param("\0", "SyntaxError", id="null"),
        pytest.param("10 ** 5000", "ValueError", id="number too long to show"),
    ],
)
async def test_an_error_of_the_snippet_is_told(code: str, told: str) -> None:
    text = await refused(code)
    assert text.startswith("the snippet failed: ")
    assert told in text


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("'x' * (1 << 30)", id="one large text"),
        pytest.param("x = []\nwhile True: x.append('x' * 100_000)", id="a growing list"),
        pytest.param("2 ** 10 ** 8", id="large number"),
        pytest.param("a = [0] * 1000\nb = [a] * 1000\n[b] * 1000", id="result that grows when written"),
        pytest.param("a = (0,) * 5000\nb = (a,) * 5000\n{(b,) * 5000}", id="result that grows when hashed"),
        pytest.param("def repr(x):\n  return 'x' * (1 << 30)\n{1}", id="repr function"),
    ],
)
async def test_a_memory_bomb_ends_with_its_error(code: str) -> None:
    assert "MemoryError" in await refused(code)


async def test_a_runaway_loop_ends_while_other_calls_go_on_and_the_server_lives() -> None:
    ended: list[str] = []
    with anyio.fail_after(20):
        async with Client(build_code_server()) as client:

            async def one(code: str) -> None:
                ended.append(text_of(await client.call_tool("run", {"code": code})))

            async with anyio.create_task_group() as group:
                group.start_soon(one, "while True: print('x' * 1000)")
                group.start_soon(one, "import time\nwhile True: time.sleep(9)")
                group.start_soon(one, "6 * 7")
            await one("'alive'")
    assert '"result": 42' in ended[0]
    assert ["feed time limit exceeded" in text and LIMITS in text for text in ended[1:3]] == [True, True]
    assert '"result": "alive"' in ended[3]


async def test_nothing_is_kept_between_calls() -> None:
    with anyio.fail_after(20):
        async with Client(build_code_server()) as client:
            await client.call_tool("run", {"code": "kept = 1"})
            assert "NameError" in text_of(await client.call_tool("run", {"code": "kept"}))


async def test_ten_snippets_at_once_all_answer_with_their_own_value() -> None:
    values: list[int] = []
    with anyio.fail_after(20):
        async with Client(build_code_server()) as client, anyio.create_task_group() as group:

            async def one(number: int) -> None:
                content = (
                    await client.call_tool("run", {"code": f"print({number})\n{number} ** 2"})
                ).structured_content
                assert content is not None
                assert content["stdout"] == f"{number}\n"
                values.append(content["result"])

            for number in range(10):
                group.start_soon(one, number)
    assert sorted(values) == [number**2 for number in range(10)]


async def test_long_output_is_cut_and_says_so() -> None:
    stdout = (await run("print('x' * 200_000)\nprint('y')"))["stdout"]
    assert stdout == "x" * 100_000 + "\n[the rest is cut: at most 100,000 characters are kept]"


async def test_a_value_behind_syntax_that_this_python_does_not_know_is_said_to_be_missing() -> None:
    # A byte order mark: only the sandbox takes it, with every version of Python.
    value = await run("\ufeffprint('ran')\n1")
    assert (value["result"], value["stdout"].splitlines()[0]) == (None, "ran")
    assert "the value of the last line is not known" in value["stdout"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param("", "'code' is empty; give Python source whose last line is an expression", id="empty"),
        pytest.param(" \n", "'code' is empty; give Python source whose last line is an expression", id="blank"),
        pytest.param("#" * 100_001, "'code' has 100,001 characters; at most 100,000 are taken", id="too long"),
        pytest.param("'x' * 2_000_000", "the result has 2,000,002 characters and at most 1,000,000 are", id="large"),
        pytest.param(
            "x = []\nfor _ in range(80): x = [x, '[[\"']\nx", "the result is nested 81 levels deep", id="deep"
        ),
    ],
)
async def test_code_and_results_out_of_bounds_are_refused(code: str, told: str) -> None:
    assert (await refused(code)).startswith(told)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_result_at_the_bounds_comes_through(mode: str) -> None:
    code = "x = ['[' * 900_000, int('9' * 4000)]\nfor _ in range(63): x = [x]\nx"
    value = (await run(code, mode=mode))["result"]
    for _ in range(63):
        [value] = value
    assert value == ["[" * 900_000, int("9" * 4000)]


async def test_a_missing_sandbox_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    text = await refused("1")
    assert text == (
        "the sandbox pydantic-monty is not installed; "
        "install it where this server runs, with: pip install 'pydantic-monty>=1.4'"
    )


async def test_a_sandbox_that_cannot_start_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MONTY_BIN", str(tmp_path / "missing"))
    text = await refused("1")
    assert text.startswith("the sandbox could not start (failed to spawn")
    assert text.endswith("pip install 'pydantic-monty>=1.4'")


async def test_a_sandbox_that_dies_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "dies").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "dies").chmod(0o700)
    monkeypatch.setenv("MONTY_BIN", str(tmp_path / "dies"))
    assert (await refused("1")).startswith("the snippet failed: monty worker crashed")
