"""Of all that a server writes to stderr, the few lines that say why it does not work."""

import pytest

from downstream.servers.stderr_tail import StderrTail

NPM = """npm warn deprecated glob@7.2.3: no longer supported
npm error code E404
npm error 404 'shop-mcp@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm notice New major version of npm available!
npm error A complete log of this run can be found in: /home/me/.npm/_logs/1.log
exit code 1
"""
NODE = """node:internal/modules/cjs/loader:1225
  throw err;
  ^

Error: Cannot find module 'shop'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
  code: 'MODULE_NOT_FOUND',
}

Node.js v20.20.2
exit code 1
"""
PYTHON = """Traceback (most recent call last):
  File "/srv/shop.py", line 1, in <module>
    import till
ModuleNotFoundError: No module named 'till'
exit code 1
"""


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", ""),
        ("exit code 3\n", "exit code 3"),
        (NPM, "npm error code E404 / npm error 404 'shop-mcp@*' is not in this registry."),
        (NODE, "node:internal/modules/cjs/loader:1225 / Error: Cannot find module 'shop'"),
        (PYTHON, "ModuleNotFoundError: No module named 'till'"),
        ("one\ntwo\n---\nthree\nfour\n", "two / three / four"),
        ("again\nagain\n", "again"),
        ("x" * 100 + "\n" + "y" * 30 + "\n", "y" * 30),
        ("a" * 119 + "\n" + "b" * 200 + "\n", "b" * 119 + "…"),
        ("   only places\n", "only places"),
        ("---\n", "---"),
        ("\x1b[31mdisk is full\x1b[0m\n", "disk is full"),
    ],
)
async def test_the_last_lines_that_tell_something_are_shown(written: str, told: str) -> None:
    tail = StderrTail("shop")
    with tail.open_pipe() as end:
        end.write(written)
    await tail.settle()
    assert tail.short() == told
