"""Having what was written lie on the medium, also after a power cut."""

import os
import sys

# Reached on macOS only, where fsync leaves it in the drive's cache.
if sys.platform == "darwin":  # pragma: no cover
    import fcntl

    def sync(descriptor: int) -> None:
        """Return once the file or folder is on the medium."""
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError:
            # Not every file system has it.
            os.fsync(descriptor)

else:

    def sync(descriptor: int) -> None:
        """Return once the file or folder is on the medium."""
        os.fsync(descriptor)
