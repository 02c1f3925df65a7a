"""Results too large for a context, kept whole in files: written, synced and renamed before their row is committed."""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from .database import Database, Row, Transaction
from .errors import StoreError, UnknownId
from .values import Label
from .world import World


class ArtifactLost(StoreError):
    """What was kept is gone or was changed on disk; no later try will find it."""


@dataclass(frozen=True)
class Artifact:
    """`size` is in bytes; the file lies in the store's folder under the run's id and its own."""

    id: str
    run: str
    step: str
    call: str
    media_type: str
    size: int
    sha256: str
    label: Label


@dataclass(frozen=True)
class NewArtifact:
    step: str
    call: str
    media_type: str
    content: bytes
    label: Label


def _anyone(tx: Transaction) -> None:
    """The guard of artifacts that belong to no drive."""


class Artifacts:
    """The artifacts of a store. File names are ids, never text of a model or server."""

    def __init__(self, database: Database, world: World, guard: Callable[[Transaction], None] = _anyone) -> None:
        self._database = database
        self._world = world
        self._guard = guard
        self._folder = database.path.parent / "artifacts"

    def guarded(self, guard: Callable[[Transaction], None]) -> "Artifacts":
        """The same artifacts, where adding one needs that `guard` does not raise."""
        return Artifacts(self._database, self._world, guard)

    async def add(self, run_id: str, new: NewArtifact) -> Artifact:
        """Keep `new.content`. Raises StoreError if the disk does not take it, or UnknownId."""
        artifact_id = self._world.new_id("f")
        try:
            sha256 = await anyio.to_thread.run_sync(_write_whole, self._folder / run_id, artifact_id, new.content)
        except OSError as error:
            raise StoreError(f"{self._folder}: {error.strerror}; free some space, nothing kept is lost") from error
        self._world.reach("artifact.file")
        size = len(new.content)
        kept = Artifact(artifact_id, run_id, new.step, new.call, new.media_type, size, sha256, new.label)

        def change(tx: Transaction) -> None:
            self._guard(tx)
            if _insert(tx, kept, self._world.now()) != 1:
                raise UnknownId("run", run_id)

        await self._database.write("artifact.row", change)
        return kept

    async def get(self, artifact_id: str, *, run_id: str) -> Artifact:
        """Raises UnknownId, also for an artifact of another run."""
        sql = "SELECT * FROM artifacts WHERE id = ? AND run = ?"
        row = await self._database.read(lambda tx: tx.row(sql, (artifact_id, run_id)))
        if row is None:
            raise UnknownId("artifact", artifact_id)
        return _artifact(row)

    async def content(self, artifact: Artifact) -> bytes:
        """The whole file; raises ArtifactLost if it is gone or was changed."""
        path = self._folder / artifact.run / artifact.id
        try:
            content, sha256 = await anyio.to_thread.run_sync(_read_whole, path)
        except OSError as error:
            raise ArtifactLost(
                f"artifact {artifact.id} cannot be read: {error.strerror}; run its step again"
            ) from error
        if sha256 != artifact.sha256:
            raise ArtifactLost(f"artifact {artifact.id} was changed on disk and is not used; run its step again")
        return content

    async def of_run(self, run_id: str) -> list[Artifact]:
        sql = "SELECT * FROM artifacts WHERE run = ? ORDER BY created_at, id"
        return [_artifact(row) for row in await self._database.read(lambda tx: tx.rows(sql, (run_id,)))]


def _write_whole(folder: Path, name: str, content: bytes) -> str:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f"{name}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(folder / name)
    _sync_folders(folder, folder.parent, folder.parent.parent)
    return hashlib.sha256(content).hexdigest()


def _sync_folders(*folders: Path) -> None:
    # Windows has no way to sync a folder.
    if sys.platform != "win32":  # pragma: no branch
        for folder in folders:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _read_whole(path: Path) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, hashlib.sha256(content).hexdigest()


def _insert(tx: Transaction, kept: Artifact, at: float) -> int:
    return tx.change(
        "INSERT INTO artifacts (id, run, owner, step, call, media_type, size, sha256, label, created_at)"
        " SELECT ?, id, owner, ?, ?, ?, ?, ?, ?, ? FROM runs WHERE id = ?",
        (
            *(kept.id, kept.step, kept.call, kept.media_type, kept.size, kept.sha256),
            *(" ".join(sorted(kept.label)), at, kept.run),
        ),
    )


def _artifact(row: Row) -> Artifact:
    fields = {name: row[name] for name in Artifact.__dataclass_fields__}
    fields["label"] = frozenset(row["label"].split())
    return Artifact(**fields)
