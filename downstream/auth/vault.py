"""The system's keyring, where the extra `keyring` is installed and finds one that it can use."""

import importlib
from dataclasses import dataclass
from typing import Any

_SERVICE = "steprelay"
_UNUSABLE = ("keyring.backends.fail", "keyring.backends.null")
"""What stands in where there is no keyring, as on a machine without a desktop."""


class VaultFailed(Exception):
    """The keyring did not do what it was asked for."""


@dataclass(frozen=True)
class Vault:
    """A keyring that works; `name` is for people."""

    name: str
    _keyring: Any
    _error: type[Exception]

    def get(self, key: str) -> str | None:
        try:
            found: str | None = self._keyring.get_password(_SERVICE, key)
        except self._error as error:
            raise VaultFailed from error
        return found

    def put(self, key: str, text: str) -> None:
        try:
            self._keyring.set_password(_SERVICE, key, text)
        except self._error as error:
            raise VaultFailed from error

    def drop(self, key: str) -> None:
        try:
            self._keyring.delete_password(_SERVICE, key)
        except self._error as error:
            raise VaultFailed from error


def find_vault() -> Vault | None:
    """The keyring of this user, if there is one."""
    try:
        keyring = importlib.import_module("keyring")
        errors = importlib.import_module("keyring.errors")
    except ImportError:
        return None
    backend: object = keyring.get_keyring()
    module = type(backend).__module__
    if module in _UNUSABLE:
        return None
    return Vault(f"the system's keyring ({module})", keyring, errors.KeyringError)
