"""Results too large for a context, kept whole in files: written, synced and renamed before their row is committed."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from .database import Database, Row, Transaction
from .errors import StoreError, UnknownId
from .values import Label
from .world import World


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


class Artifacts:
    """The artifacts of a store. File names are ids, never text of a model or server."""

    def __init__(self, database: Database, world: World) -> None:
        self._database = database
        self._world = world
        self._folder = database.path.parent / "artifacts"

    async def add(self, run_id: str, new: NewArtifact) -> Artifact:
        """Keep `new.content`; raises StoreError if the disk does not take it."""
        artifact_id = self._world.new_id("f")
        try:
            await anyio.to_thread.run_sync(_write_whole, self._folder / run_id, artifact_id, new.content)
        except OSError as error:
            raise StoreError(f"{self._folder}: {error.strerror}; free some space, nothing kept is lost") from error
        self._world.reach("artifact.file")
        kept = Artifact(
            artifact_id, run_id, new.step, new.call, new.media_type, len(new.content),
            hashlib.sha256(new.content).hexdigest(), new.label,
        )  # fmt: skip
        await self._database.write("artifact.row", lambda tx: _insert(tx, kept, self._world.now()))
        return kept

    async def get(self, artifact_id: str, *, run_id: str) -> Artifact:
        """Raises UnknownId, also for an artifact of another run."""
        sql = "SELECT * FROM artifacts WHERE id = ? AND run = ?"
        row = await self._database.read(lambda tx: tx.row(sql, (artifact_id, run_id)))
        if row is None:
            raise UnknownId("artifact", artifact_id)
        return _artifact(row)

    async def content(self, artifact: Artifact) -> bytes:
        """The whole file; raises StoreError if it is gone or was changed."""
        path = self._folder / artifact.run / artifact.id
        try:
            content = await anyio.Path(path).read_bytes()
        except OSError as error:
            raise StoreError(f"artifact {artifact.id} cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != artifact.sha256:
            raise StoreError(f"artifact {artifact.id} was changed on disk; it is not used")
        return content

    async def of_run(self, run_id: str) -> list[Artifact]:
        sql = "SELECT * FROM artifacts WHERE run = ? ORDER BY created_at, id"
        return [_artifact(row) for row in await self._database.read(lambda tx: tx.rows(sql, (run_id,)))]


def _write_whole(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f"{name}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(folder / name)
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _insert(tx: Transaction, kept: Artifact, at: float) -> None:
    tx.change(
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
