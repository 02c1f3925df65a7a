"""The programs themselves: versions, releases of litellm that nobody may run, and the keyring."""

import platform
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions

from downstream.auth.vault import find_vault
from downstream.settings import ServerSettings

from .finding import Finding

_COMPROMISED = re.compile(r"1\.82\.[78]|1\.107\.\d+.*")
"""Releases that were published with code of a thief in them."""


def installed(name: str) -> list[str]:
    """Every version of a distribution whose metadata lies on the path; none of it is imported."""
    return [found.version for found in distributions(name=name)]


def programs() -> Finding:
    """What to tell with any question about this installation."""
    versions = [f"{name} {'/'.join(installed(name)) or 'missing'}" for name in ("steprelay", "mcp", "litellm")]
    return Finding("versions", "ok", f"Python {platform.python_version()} on {sys.platform}; {', '.join(versions)}")


def litellm_release(versions: Sequence[str]) -> Finding:
    """Whether the releases of litellm that lie here may be run; tells it without running them."""
    bad = [version for version in versions if _COMPROMISED.fullmatch(version)]
    if bad:
        return Finding(
            "litellm",
            "problem",
            f"release {', '.join(bad)} was compromised: it steals keys as soon as Python starts",
            "uninstall litellm, install steprelay anew, and change all keys that this machine had",
        )
    if not versions:
        return Finding("litellm", "problem", "it is not installed, so no model can be asked", "install steprelay anew")
    if len(versions) > 1:
        text = f"releases {', '.join(versions)} lie over one another"
        return Finding("litellm", "warning", text, "install steprelay into an environment of its own")
    return Finding("litellm", "ok", f"release {versions[0]} is none of those known to be compromised")


def keyring(servers: Sequence[ServerSettings]) -> Iterator[Finding]:
    """Where logins are kept; of no interest where nobody logs in."""
    if all(server.transport == "stdio" for server in servers):
        return
    vault = find_vault()
    where = "in files of this user's, mode 0600; the extra `keyring` keeps them in the system's keyring"
    yield Finding("logins", "ok", f"they are kept {where if vault is None else f'in {vault.name}'}")
