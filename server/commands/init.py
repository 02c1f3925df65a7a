"""`steprelay init`: writes a settings file with the tool servers that MCP hosts on this machine have."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.terminal.exit_codes import ExitCode, UsageProblem

from .options import AsJson, Config

if TYPE_CHECKING:
    from server.hosts_import.places import HostFile, Machine
    from server.hosts_import.report import Report
    from server.settings_file.document import Problem

From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="HOST|PATH",
        help="A host (claude-desktop, claude-code, vscode, cursor, windsurf, cline, gemini-cli, codex, goose) or a "
        "file of one; may be repeated. Without it, all known places are looked at.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write this file, not the settings in the user's folder."),
]
Merge = Annotated[bool, typer.Option("--merge", help="Add to the settings file that is there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the file and write nothing.")]


def init(
    *,
    from_: From = None,
    output: Target = None,
    merge: Merge = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Write a settings file with the tool servers of MCP hosts.

    Secrets are not copied: they become variables, which are named. Nothing is started.
    """
    from server.hosts_import.places import Machine
    from server.settings_file.found import user_settings_path

    machine = Machine(sys.platform, Path.home(), os.environ, Path.cwd())
    path = (output or config or user_settings_path()).expanduser().absolute()
    if path.exists() and not merge and not dry_run:
        raise UsageProblem(f"{path} is there already; add to it with --merge, or name another file with -o")
    files, problems = _files(from_ or [], machine)
    report = _report(files, path, machine=machine, is_dry=dry_run)
    problems += report.result.problems
    report.result.problems = problems
    if as_json:
        typer.echo(json.dumps(report.data(), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(report.lines()))
        if dry_run and report.text is not None:
            typer.echo(f"\n{report.text.rstrip()}")
    for problem in problems:
        typer.echo(f"steprelay: {problem}", err=True)
    if problems:
        raise typer.Exit(ExitCode.SETTINGS)


def _files(named: list[str], machine: "Machine") -> "tuple[list[HostFile], list[Problem]]":
    """The files to read, and what is wrong with those that are of no host."""
    from server.hosts_import.host_file import recognised
    from server.hosts_import.places import HOSTS, known_files
    from server.settings_file.document import SettingsError, meant

    known = known_files(machine)
    files: list[HostFile] = []
    problems: list[Problem] = []
    for word in named:
        path = machine.folder / Path(word).expanduser()
        if word in HOSTS:
            files += [file for file in known if file.host == word]
        elif path.is_file():
            try:
                files.append(next((file for file in known if file.path == path), None) or recognised(path))
            except SettingsError as error:
                problems += error.problems
        else:
            raise UsageProblem(f"--from {word} is neither a host nor a file{meant(word, HOSTS)}")
    return (list(dict.fromkeys(files)) if named else known), problems


def _report(files: "list[HostFile]", path: Path, *, machine: "Machine", is_dry: bool) -> "Report":
    from server.hosts_import.importing import import_servers
    from server.hosts_import.report import Report
    from server.hosts_import.settings_text import servers_there, with_servers, write_private

    result = import_servers(files, servers_there(path), machine=machine)
    text = with_servers(path, {each.name: each.entry for each in result.taken}) if result.taken else None
    if text is not None and not is_dry:
        write_private(path, text)
    needed = result.needed if text else {}
    return Report(
        result=result,
        path=path,
        text=text,
        is_dry=is_dry,
        unset=tuple(name for name in needed if not machine.environ.get(name)),
        looked=files,
        setting="setx NAME VALUE" if machine.platform == "win32" else "export NAME=VALUE",
        next=_next(path) if text else (),
    )


def _next(path: Path) -> tuple[str, str]:
    from server.installed import Spoken, installed_command
    from server.settings_file.found import user_settings_path

    say = Spoken(installed_command(), None if path == user_settings_path() else path)
    return say('plan "…"'), f"claude mcp add --scope user steprelay -- {say('serve')}"
