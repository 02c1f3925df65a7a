"""The folder that a tool server serves, checked before the server starts."""

from pathlib import Path

from journal.errors import SteprelayError


class FolderError(SteprelayError):
    """A tool server cannot serve its folder."""

    def __init__(self, server: str, folder: Path, problem: str) -> None:
        self.server, self.folder = server, folder
        super().__init__(f"tool-server {server} cannot serve {folder}: {problem}")


def existing_folder(server: str, folder: Path) -> Path:
    """The real path of a folder that exists and can be listed; raises FolderError."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError as error:
        raise FolderError(server, folder, "it does not exist; create it or name another folder") from error
    except NotADirectoryError as error:
        raise FolderError(server, folder, "it is not a folder; name the folder that holds the files") from error
    except OSError as error:
        raise FolderError(server, folder, f"it cannot be listed ({error.strerror}); name another folder") from error
    return folder.resolve()


def writable_folder(server: str, folder: Path) -> Path:
    """The real path of a folder, made with its parents, for this user only, where missing; raises FolderError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(server, folder, f"it cannot be created ({error.strerror}); name another folder") from error
    return folder.resolve()
