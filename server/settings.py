"""All settings together: every floor's own, read from one file, checked, and never changed afterwards."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from downstream.settings import ApprovalSettings, ModelSettings, PolicySettings, ServerOptions, ServerSettings
from downstream.tool_names import has_glob, normalise_server_name
from executors.settings import REVIEWER, WorkerSettings, built_in_workers
from journal.canonical import digest
from journal.outlet import Outlet
from journal.settings import AuditSettings, EngineSettings, RetentionSettings, Secret, StoreSettings
from journal.values import JsonObject
from planner.settings import BudgetSettings, Revise

from .settings_file.document import Gap, SettingsError, UntrustedSettings, by_line, meant, named, read_document
from .settings_file.found import Found, find_settings
from .settings_file.located import Located, Place, is_list, is_map
from .settings_file.model_choice import KEY_VARIABLES
from .settings_file.policy_check import misplaced_waivers
from .settings_file.reading import Reading
from .settings_file.server_entries import KEY, build_server, prepare_servers
from .settings_file.shape import SettingsFile, fit, settings_schema
from .settings_file.trust import hash_of, is_trusted, trust_file, what_it_runs
from .settings_file.worker_files import read_worker_file, worker_paths

__all__ = [
    "Found",
    "Gap",
    "Settings",
    "SettingsError",
    "UntrustedSettings",
    "find_settings",
    "hash_of",
    "is_trusted",
    "load_settings",
    "settings_schema",
    "trust_file",
    "what_it_runs",
]

_WITH_VARIABLES = ("model", "models", "model_options", "store", "engine")


@dataclass(frozen=True)
class Settings:
    """What one file, or none, says. `servers` are those that can be started; `off` names the disabled and broken."""

    path: Path | None
    model: ModelSettings
    servers: tuple[ServerSettings, ...]
    off: tuple[str, ...]
    workers: tuple[WorkerSettings, ...]
    has_own_workers: bool
    policy: PolicySettings
    approvals: ApprovalSettings
    budget: BudgetSettings
    store: StoreSettings
    retention: RetentionSettings
    audit: AuditSettings
    revise: Revise
    engine: EngineSettings
    secrets: tuple[Secret, ...] = field(repr=False)
    warnings: tuple[str, ...]
    fingerprint: str
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By the name of a secret, the servers that it is for."""
    gaps: tuple[Gap, ...] = ()
    """Texts whose variables are not set: they stand here as written, so nothing may be opened or asked by them."""

    @cached_property
    def outlet(self) -> Outlet:
        """The one way out for text under these settings; it learns of secrets that come later."""
        return Outlet(self.secrets, owners=self.owners)

    @property
    def gaps_of_servers(self) -> dict[str, str]:
        """By server, what its entry or options lack."""
        servers = ((gap.problem.server, str(gap.problem)) for gap in reversed(self.gaps))
        return {normalise_server_name(server): text for server, text in servers if server is not None}


def load_settings(
    found: Found, *, environ: Mapping[str, str], lenient: bool = False, with_gaps: bool = False
) -> Settings:
    """The settings of a found file, or the defaults.

    Raises SettingsError with everything that is wrong, UntrustedSettings for a project file that changed since it was
    found; with `lenient`, a server whose entry is broken is turned off with a warning, and only problems of the rest
    raise. With `with_gaps`, for those who open no server and ask no model, a variable that is not set is one of `gaps`
    and nothing wrong, save in `store`.
    """
    located = read_document(found.path) if found.path else Located({})
    reading = Reading(located, environ, found.path, keeps_gaps=with_gaps, warnings=list(found.warnings))
    for place, line in located.repeated:
        reading.problem(place, f"{named(place)} stands twice; keep one", line=line)
    data: JsonObject = dict(located.data)
    names = prepare_servers(data, reading)
    for key in _WITH_VARIABLES:
        if key in data:
            data[key] = reading.expanded(data[key], (key,))
    file, misfits = fit(data, reading.folder)
    for place, text in misfits:
        if place not in reading.unset:
            reading.problem(place, text)
    for number, text in misplaced_waivers(file):
        reading.problem(("policy", "rules", number), text)
    from_files = _worker_files(data, reading)
    unfit = {place for place, _ in misfits if place in reading.unset}
    turned_off = _turn_off_broken(data, reading, lenient=lenient)
    _take_out(data, unfit)
    if turned_off or unfit:
        file, _ = fit(data, reading.folder)
    own_workers = (*(WorkerSettings(**dict(entry)) for entry in file.workers), *from_files)
    _note_secrets(file, reading)
    reading.warnings += _unknown_servers(file, own_workers, names)
    # Its trust was looked at before; what was read since may be another file.
    if found.source == "project" and found.path is not None and not is_trusted(found.path):
        raise UntrustedSettings(found.path)
    return _put_together(file, own_workers, names=names, reading=reading)


def _worker_files(data: JsonObject, reading: Reading) -> list[WorkerSettings]:
    written = data.get("workers")
    entries = written if is_list(written) else []
    names = [str(entry["name"]) for entry in entries if is_map(entry) and "name" in entry]
    files = [read_worker_file(path) for path in worker_paths(reading.path)] if reading.path else []
    for file in files:
        reading.warnings += file.warnings
        reading.problems += file.problems
    workers = [file.worker for file in files if file.worker]
    for name, count in Counter([*names, *(worker.name for worker in workers)]).items():
        if count > 1:
            reading.problem(("workers",), f"worker {name!r} is there {count} times, worker files counted; rename one")
    return workers


def _turn_off_broken(data: JsonObject, reading: Reading, *, lenient: bool) -> bool:
    """Whether servers had to be taken out of the data. Raises SettingsError where that is not enough."""
    broken = {problem.server for problem in reading.problems}
    if reading.problems and (not lenient or None in broken):
        raise SettingsError(reading.problems)
    reading.warnings += [f"server {problem.server!r} is off: {problem}" for problem in by_line(reading.problems)]
    if broken:
        data[KEY] = {name: entry for name, entry in data[KEY].items() if name not in broken}
    return bool(broken)


def _take_out(data: JsonObject, unfit: Iterable[Place]) -> None:
    """Take out what holds a text that does not fit as it is written: a server, its `auth`, or a key."""
    for place in unfit:
        *above, last = place[: 3 if place[0] == "server_options" else 2]
        node = data
        for part in above:
            node = node[str(part)]
        node.pop(str(last), None)


def _note_secrets(file: SettingsFile, reading: Reading) -> None:
    for name in (*file.secrets, *KEY_VARIABLES):
        if reading.environ.get(name):
            reading.secret(name, reading.environ[name])


def _unknown_servers(file: SettingsFile, workers: Iterable[WorkerSettings], names: Iterable[str]) -> Iterator[str]:
    """Warnings for patterns of servers that the file does not have: most are typing errors."""
    patterns = [(f"policy.rules[{number}]", rule.tool) for number, rule in enumerate(file.policy.rules)]
    patterns += [("policy.sinks", tool) for tool in file.policy.sinks]
    for name, options in file.server_options.items():
        rules = {glob: tool.how_to_reconcile for glob, tool in options.tools.items()}
        place = f"server_options.{name}.tools"
        patterns += [(f"{place}.{glob}.reconcile", rule.tool) for glob, rule in rules.items() if rule]
    for worker in workers:
        patterns += [(f"worker {worker.name!r}", tool) for tool in (*(worker.tools or ()), *worker.disallowed_tools)]
    for place, tool in patterns:
        server = tool.partition(".")[0]
        if not has_glob(server) and server not in names:
            yield f"{place} names server {server!r}, which is not in {KEY}{meant(server, names)}"


def _put_together(
    file: SettingsFile, own_workers: tuple[WorkerSettings, ...], *, names: Mapping[str, str], reading: Reading
) -> Settings:
    options = {normalise_server_name(name): given for name, given in file.server_options.items()}
    servers = tuple(
        build_server(
            name, entry, options=options.get(normalise_server_name(name), ServerOptions()), folder=reading.folder
        )
        for name, entry in file.servers.items()
    )
    started = {server.name for server in servers}
    has_reviewer = any(worker.name == REVIEWER.name for worker in own_workers)
    return Settings(
        path=reading.path,
        model=ModelSettings(model=file.model, models=file.models, options=file.model_options),
        servers=servers,
        off=tuple(name for name in names if name not in started),
        workers=(own_workers if has_reviewer else (*own_workers, REVIEWER)) if own_workers else built_in_workers(),
        has_own_workers=bool(own_workers),
        policy=file.policy,
        approvals=file.approvals,
        budget=file.budget,
        store=StoreSettings(url=file.store),
        retention=file.retention,
        audit=file.audit,
        revise=file.revise,
        engine=file.engine,
        secrets=reading.secrets,
        warnings=tuple(reading.warnings),
        fingerprint=_fingerprint(file, own_workers, reading),
        owners=_owners(file, reading),
        gaps=tuple(reading.gaps),
    )


def _owners(file: SettingsFile, reading: Reading) -> dict[str, frozenset[str]]:
    there = file.servers.keys() | file.server_options.keys()
    return {secret: frozenset(map(normalise_server_name, names & there)) for secret, names in reading.owners.items()}


def _fingerprint(file: SettingsFile, workers: Iterable[WorkerSettings], reading: Reading) -> str:
    """The same for all processes under equal settings; servers as written, so that no value of a variable goes in."""
    written: JsonObject = reading.located.data
    return digest(
        {
            "path": str(reading.path.resolve()) if reading.path else None,
            "servers": written.get(KEY, written.get("servers")),
            "server_options": written.get("server_options"),
            "workers": [worker.model_dump(mode="json", exclude={"classes"}) for worker in workers],
            "policy": file.policy.model_dump(mode="json", exclude_unset=True),
        }
    )
