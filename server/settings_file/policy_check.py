"""What is wrong with policy rules in the light of the rest of the file."""

from collections.abc import Iterator

from downstream.tool_names import has_glob, normalise_server_name

from .shape import SettingsFile


def misplaced_waivers(file: SettingsFile) -> Iterator[tuple[int, str]]:
    """By number, what is wrong with each `tainted: allow` for one tool that `effects` gives another class than egress.

    Where only its server can tell the class, runs warn.
    """
    options = {normalise_server_name(name): given for name, given in file.server_options.items()}
    for number, rule in enumerate(file.policy.rules):
        server, _, tool = rule.tool.partition(".")
        if rule.tainted is None or has_glob(tool) or server not in options:
            continue
        effect = options[server].effect_of(tool)
        if effect not in (None, "egress"):
            place = f"server_options.{server}.effects"
            yield (
                number,
                f"policy.rules[{number}]: tainted: allow is for class egress, and {place} makes {rule.tool} "
                f"{effect}; take it out, or mend the class",
            )
