"""What `--json` prints: one event a line on stdout, and nothing else."""

import json
import sys

from .follow import Snapshot


def show_events(now: Snapshot) -> None:
    """Write the events that came since the last look."""
    for event in now.events:
        sys.stdout.write(json.dumps(event.to_json(), ensure_ascii=False) + "\n")
    if now.events:
        sys.stdout.flush()
