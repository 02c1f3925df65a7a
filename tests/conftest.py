"""What holds for every test: no connection leaves this machine, and no setting of its user gets in."""

import os
import socket
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from server.terminal.asking import AGENT_MARKERS

# How long an example takes says something about the machine, and nothing about us.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")


def _on_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refuse_other_machines(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("socket.connect", "socket.sendto"):
        return
    sock, address = arguments
    if sock.family in (socket.AF_INET, socket.AF_INET6) and not _on_this_machine(address[0]):
        raise RuntimeError(f"a test tried to reach {address[0]}; tests may talk to loopback addresses only")


sys.addaudithook(_refuse_other_machines)


@pytest.fixture(autouse=True)
def empty_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home, state and configuration of its own for each test, and no key of a model provider."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))
    # Package caches stay, so that tests with third-party servers do not download them each time.
    monkeypatch.setenv("XDG_CACHE_HOME", _CACHE)
    for name in os.environ:
        # Nor a desktop on which a browser would open, nor an agent in whose shell there is no person.
        if name.startswith("STEPRELAY_") or name.endswith(("_API_KEY", "DISPLAY")) or name in AGENT_MARKERS:
            monkeypatch.delenv(name)
    if request.node.get_closest_marker("untraced"):
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
