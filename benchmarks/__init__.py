"""Benchmarks and the evaluation kit. Both use what stands in `tests/support`, so that is put on the path."""

import sys
from pathlib import Path

_SUPPORT = str(Path(__file__).parent.parent / "tests" / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
