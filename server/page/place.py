"""Where the page is found: a port on loopback that stays the same for a store, whichever process serves it."""

import errno
import hashlib
import hmac
import secrets
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import anyio

from journal.settings import state_folder
from server.host.kept_secret import page_key

from .link import HOST

_LOWEST, _HIGHEST = 20_000, 32_000
"""Below the ports that systems give away for outgoing connections."""
_ANSWER_SECONDS = 2.0
_SIXTH = "::1"
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Place:
    """The page's port for one store, kept in the state folder, and the key that tells our page from any other.

    Raises NotKept, or OSError, where the state folder cannot be written to.
    """

    def __init__(self, store: Path) -> None:
        self._name = hashlib.sha256(str(store.resolve()).encode()).hexdigest()[:12]
        self._file = state_folder() / f"page-{self._name}.port"
        self._key = page_key()

    def port(self) -> int:
        """The port in the file, which is made at first use."""
        return self._kept() or self.move()

    def move(self, taken: int | None = None) -> int:
        """Choose another port than one which something else has taken, unless another process just did."""
        if (found := self._kept()) not in (None, taken):
            return found
        draft = self._file.with_suffix(f".{secrets.token_hex(8)}")
        draft.write_text(str(_LOWEST + secrets.randbelow(_HIGHEST - _LOWEST)))
        draft.replace(self._file)
        return int(self._file.read_text())

    def _kept(self) -> int | None:
        with suppress(FileNotFoundError, ValueError):
            port = int(self._file.read_text())
            return port if 0 < port < 2**16 else None
        return None

    def key(self, port: int) -> bytes:
        """What codes for the page at a port are made with: worth nothing at another port, nor for another store.

        So whoever took a port cannot have another page of this user answer for them, nor hand on a code to it.
        """
        return hmac.new(self._key, f"page {self._name} {port}".encode(), hashlib.sha256).digest()

    def proof(self, port: int, nonce: str) -> str:
        """What only a process of this user can answer that serves this page on the port."""
        return hmac.new(self.key(port), f"hello {nonce}".encode(), hashlib.sha256).hexdigest()

    async def is_ours(self, port: int) -> bool:
        """Whether a living process of this user serves the page on the port."""
        nonce = secrets.token_hex(16)
        request = f"GET /hello?nonce={nonce} HTTP/1.0\r\nHost: {HOST}:{port}\r\n\r\n"
        answer = b""
        with anyio.move_on_after(_ANSWER_SECONDS), suppress(OSError, anyio.BrokenResourceError, anyio.EndOfStream):
            async with await anyio.connect_tcp(HOST, port) as stream:
                await stream.send(request.encode())
                while len(answer) < 10_000:
                    answer += await stream.receive()
        return answer.endswith(f"\r\n\r\n{self.proof(port, nonce)}".encode())


@contextmanager
def listening(port: int, *, also: str = _SIXTH) -> Generator[list[socket.socket]]:
    """The port at both loopback addresses, or at the one that this machine has, until the block ends.

    Browsers look for `localhost` at either, so nobody else may have the other. Raises OSError where it is taken.
    """
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server((HOST, port)))]
        try:
            found.append(stack.enter_context(socket.create_server((also, port), family=socket.AF_INET6)))
        except OSError as error:
            if error.errno not in _NO_SUCH_ADDRESS:
                raise
        yield found
