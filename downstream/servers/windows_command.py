"""How a command is started on Windows, where `npx` and its like are batch files, which only cmd.exe can run."""

import re
from collections.abc import Sequence
from pathlib import Path

_BATCH = (".cmd", ".bat")
_NPM = Path("node_modules", "npm", "bin")
# Python quotes a word for cmd.exe only where it has a space in it, and a batch file has what it was given read again.
_READ_BY_CMD = re.compile(r'[&|<>^"\r\n]|%[^%]+%')


def windows_command(found: str, args: Sequence[str]) -> list[str]:
    """The words to start for a command that was found as this file.

    npm's own batch files do nothing but start node, so node is started; others run as they are. Raises ValueError for
    an argument that would not reach them as it is.
    """
    batch = Path(found)
    if batch.suffix.lower() not in _BATCH:
        return [found, *args]
    node, script = batch.with_name("node.exe"), batch.parent / _NPM / f"{batch.stem.lower()}-cli.js"
    if node.is_file() and script.is_file():
        return [str(node), str(script), *args]
    if lost := [word for word in args if _READ_BY_CMD.search(word)]:
        # Not the word itself, which may be a secret.
        said = f"argument {args.index(lost[0]) + 1} has a character that cmd.exe changes"
        raise ValueError(f"{batch.name} is a batch file, and {said}; name the program behind it as the command")
    return [found, *args]
