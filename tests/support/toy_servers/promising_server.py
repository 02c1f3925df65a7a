"""A tool server whose tool `look` promises a result: `-m toy_servers.promising_server FILE VERSION`.

FILE holds as JSON the `outputSchema` that it lists, and the `result` that every call gets.
"""

import json
import sys
from pathlib import Path
from typing import Any

from toy_servers.by_hand import LOOK, MODERN, ByHand


def main() -> None:
    """Answer until end of input, in this version of the protocol."""
    told: Any = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    server = ByHand(sys.argv[2])
    server.tools = [LOOK | {"outputSchema": told["outputSchema"]}]
    complete = {"resultType": "complete"} if server.version == MODERN else {}
    for line in sys.stdin:
        message = json.loads(line)
        if (answer := server.answer(message)) is None:
            continue
        if message["method"] == "tools/call":
            answer = {"result": complete | told["result"]}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
