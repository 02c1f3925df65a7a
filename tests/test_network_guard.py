import socket
import sys

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org"])
def test_a_connection_to_another_machine_is_refused(host: str) -> None:
    # The event that Python raises before it connects; nothing is sent even if the guard should break.
    with socket.socket() as sock, pytest.raises(RuntimeError, match=host):
        sys.audit("socket.connect", sock, (host, 80))


def test_a_connection_to_this_machine_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
