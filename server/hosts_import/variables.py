"""Names of variables for secrets: the same secret of one name has one, and no name stands for two secrets."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from journal.values import JsonObject
from server.settings_file.located import is_list, is_map
from server.settings_file.variables import variables_in

from .hiding import Secret, hidden
from .references import variable_name

_DEFAULT = re.compile(r"\$\{\w+:-[^}]*\}")


@dataclass
class Variables:
    """Chosen while entries are taken; `needed` has each variable with the places that use it."""

    values: dict[str, str | None]
    """By name its secret; None where only its user knows the value."""
    needed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    secrets: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What was taken out, each with its name: for the outlet."""
    said: list[str] = field(default_factory=list[str])

    def entry(self, server: str, entry: JsonObject) -> JsonObject:
        """The server's entry without its secrets."""

        def chosen(secret: Secret) -> str:
            name = secret.variable or self._name_for(secret, server)
            self.secrets.append((name, secret.value))
            self.said.append(f"{server}: what is, or looks, secret in {secret.where} is not copied; set {name}")
            return name

        result = hidden(entry, chosen)
        for place, text in _texts(result):
            for name in variables_in(_DEFAULT.sub("", text)):
                places = self.needed.setdefault(name, [])
                places += [] if f"{server} {place}" in places else [f"{server} {place}"]
        return result

    def _name_for(self, secret: Secret, server: str) -> str:
        place, _, given = secret.where.partition(" ")
        own, label = variable_name(server), variable_name(secret.label)
        longer = label if label.startswith(f"{own}_") else f"{own}_{label}"
        is_usable = place == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given)
        numbered = (f"{longer}_{number}" for number in range(2, len(self.values) + 3))
        names = (*((given,) if is_usable else ()), longer, *numbered)
        name: str = next(each for each in names if self.values.get(each, secret.value) == secret.value)
        self.values[name] = secret.value
        return name


def used_in(entries: Iterable[JsonObject]) -> dict[str, str | None]:
    """The variables that entries refer to already."""
    return {name: None for entry in entries for _, text in _texts(entry) for name in variables_in(text)}


def _texts(entry: JsonObject) -> Iterable[tuple[str, str]]:
    for key, item in entry.items():
        below = item.values() if is_map(item) else item if is_list(item) else [item]
        yield from ((key, text) for text in below if isinstance(text, str))
