"""Arguments against the JSON Schema that a server gave for its tool."""

from itertools import islice

from journal.values import JsonObject

from .prompt_text import escaped
from .schema_visits import Unusable, bounded_validator, usable

_MOST_ERRORS = 20
_LONGEST_ERROR = 200


def argument_errors(schema: JsonObject, arguments: JsonObject) -> list[str]:
    """What is wrong, as `/pointer: what`, at most twenty; empty if they fit. An unusable schema is an error too.

    Nothing is fetched: a reference to another document cannot be read. One that would take too long is not read either.
    """
    try:
        with usable(arguments):
            found = list(islice(bounded_validator(schema).iter_errors(arguments), _MOST_ERRORS))
    except Unusable as error:
        return [
            f"the server's schema for this tool cannot be used ({_short(str(error))}); tell whoever runs the server"
        ]
    found.sort(key=lambda error: error.json_path)
    return [f"/{'/'.join(map(str, error.absolute_path))}: {_short(error.message)}" for error in found]


def _short(text: str) -> str:
    # Cut before as well: an error may quote all of what it is about.
    line = escaped(text.partition("\n")[0][: _LONGEST_ERROR + 1])
    return line if len(line) <= _LONGEST_ERROR else f"{line[: _LONGEST_ERROR - 1]}…"
