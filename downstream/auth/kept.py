"""Logins that outlive a process: one for each tool server, in the system's keyring or in a file of this user's."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from downstream.servers.listing import fingerprint_of
from downstream.settings import ServerSettings
from journal.errors import SteprelayError
from journal.locks import open_lock
from journal.secret_files import write_private
from journal.settings import state_folder

from .vault import VaultFailed, find_vault

Version: TypeAlias = tuple[int, int, int] | None
"""Differs whenever what is kept was changed by anybody; None where nothing is kept."""


class LoginNotKept(SteprelayError):
    """What a server granted cannot be written down, or be removed again."""

    def __init__(self, server: str, error: OSError, *, deed: str = "kept") -> None:
        where, why = error.filename or "the state folder", error.strerror or str(error)
        super().__init__(
            f"the login at {server!r} cannot be {deed}: {where}: {why}; set XDG_STATE_HOME to another folder"
        )


class Login(BaseModel):
    """What an authorization server granted for one tool server, and what it takes to have that renewed."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    access_token: str = Field(repr=False, pattern=r"^[!-~]+$")
    """Such as a header can hold."""
    refresh_token: str | None = Field(default=None, repr=False)
    expires_at: float | None = None
    scope: str | None = None
    token_endpoint: str
    resource: str | None = None
    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    client_auth: Literal["none", "client_secret_post", "client_secret_basic"] = "none"


class KeptLogin:
    """The login at one server, by what makes it this server: another address is another login.

    The file is there whenever a login is; with a keyring it only says so, and its change tells other processes.
    """

    def __init__(self, server: ServerSettings) -> None:
        self._server = server.name
        self._id = fingerprint_of(server)[:32]

    @property
    def version(self) -> Version:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> Login | None:
        """The login, if there is one that can be read."""
        try:
            # One that an older umask or a copy left open to others is closed before it is read.
            self._path.chmod(0o600)
            data = json.loads(self._path.read_text(encoding="utf-8"))
            if data.get("in") == "keyring":
                vault = find_vault()
                data = json.loads((vault.get(self._id) if vault else None) or "null")
            return Login.model_validate(data)
        except (OSError, ValueError, AttributeError, ValidationError, VaultFailed):
            return None

    def write(self, login: Login) -> str:
        """Keep the login in place of an earlier one; returns where, in words. Raises LoginNotKept."""
        text = login.model_dump_json(exclude_none=True)
        vault = find_vault()
        if vault is not None:
            # Some keyrings take short texts only.
            with suppress(VaultFailed):
                vault.put(self._id, text)
                self._write(json.dumps({"in": "keyring"}))
                return f"in {vault.name}"
        self._write(text)
        return f"in {self._path}, which only you can read"

    def forget(self) -> bool:
        """Whether there was a login; now there is none. Raises LoginNotKept."""
        vault = find_vault()
        if vault is not None:
            with suppress(VaultFailed):
                vault.drop(self._id)
        was_there = self.version is not None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise LoginNotKept(self._server, error, deed="forgotten") from error
        return was_there

    @asynccontextmanager
    async def open_lock(self) -> AsyncGenerator[None]:
        """Keep other processes, and other tasks here, from changing the login meanwhile. Raises LoginNotKept."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(open_lock(self._path.with_suffix(".lock")))
            except OSError as error:
                raise LoginNotKept(self._server, error) from error
            yield

    @cached_property
    def _path(self) -> Path:
        folder = state_folder() / "logins"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{self._id}.json"

    def _write(self, text: str) -> None:
        try:
            write_private(self._path, text.encode())
        except OSError as error:
            raise LoginNotKept(self._server, error) from error
