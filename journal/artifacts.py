"""Results too large for a context, kept whole in files: written, synced and renamed before their row is committed."""

from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread

from .artifact_files import read_whole, remove, write_whole
from .database import Database, Row, Transaction
from .errors import SteprelayError, StoreError, UnknownId
from .values import Label
from .world import World

_MIB = 1 << 20


class ArtifactLost(StoreError):
    """What was kept is gone or was changed on disk; no later try will find it."""


class ArtifactNotKept(SteprelayError):
    """There is no room for an artifact, by the limits or on the disk; its run goes on without it."""


@dataclass(frozen=True)
class ArtifactLimits:
    """How many MiB of artifacts one run may keep, and a whole store (`retention` in the settings)."""

    run_mib: int = 64
    store_mib: int = 2048


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

    def __init__(
        self,
        database: Database,
        world: World,
        *,
        limits: ArtifactLimits,
        guard: Callable[[Transaction], None] = _anyone,
    ) -> None:
        self.folder = database.path.parent / "artifacts"
        self._database = database
        self._world = world
        self._limits = limits
        self._guard = guard

    def guarded(self, guard: Callable[[Transaction], None]) -> "Artifacts":
        """The same artifacts, where adding one needs that `guard` does not raise."""
        return Artifacts(self._database, self._world, limits=self._limits, guard=guard)

    async def add(self, run_id: str, new: NewArtifact) -> Artifact:
        """Keep `new.content`. Raises ArtifactNotKept where there is no room for it, or UnknownId."""
        # Asked before and after: nothing is written in vain, and of two at once only one takes the last room.
        await self._database.read(lambda tx: self.check_room(tx, run_id, len(new.content)))
        artifact_id = self._world.new_id("f")
        try:
            sha256 = await anyio.to_thread.run_sync(write_whole, self.folder / run_id, artifact_id, new.content)
        except OSError as error:
            raise ArtifactNotKept(f"{self.folder}: {error.strerror}; free some space there") from error
        self._world.reach("artifact.file")
        size = len(new.content)
        kept = Artifact(artifact_id, run_id, new.step, new.call, new.media_type, size, sha256, new.label)
        await self._put_row(kept)
        return kept

    async def _put_row(self, kept: Artifact) -> None:
        def change(tx: Transaction) -> None:
            self._guard(tx)
            self.check_room(tx, kept.run, kept.size)
            if _insert(tx, kept, self._world.now()) != 1:
                raise UnknownId("run", kept.run)

        try:
            await self._database.write("artifact.row", change)
        except SteprelayError as error:
            # Its space may be what the store lacks for going on.
            await anyio.to_thread.run_sync(remove, self.folder / kept.run / kept.id)
            if isinstance(error, StoreError):
                raise ArtifactNotKept(str(error)) from error
            raise

    def check_room(self, tx: Transaction, run_id: str, size: int) -> None:
        """Raises ArtifactNotKept where so many more bytes are too many."""
        sizes, limits = "SELECT COALESCE(SUM(size), 0) FROM artifacts", self._limits
        if tx.rows(f"{sizes} WHERE run = ?", (run_id,))[0][0] + size > limits.run_mib * _MIB:
            raise ArtifactNotKept(
                f"all large results of one run may take {limits.run_mib:,} MiB (retention.run_artifacts_mib)"
            )
        if tx.rows(sizes)[0][0] + size > limits.store_mib * _MIB:
            raise ArtifactNotKept(
                f"the large results of all runs may take {limits.store_mib:,} MiB (retention.store_artifacts_mib); "
                "`steprelay runs prune --older-than DAYS` makes room"
            )

    async def get(self, artifact_id: str, *, run_id: str) -> Artifact:
        """Raises UnknownId, also for an artifact of another run."""
        sql = "SELECT * FROM artifacts WHERE id = ? AND run = ?"
        row = await self._database.read(lambda tx: tx.row(sql, (artifact_id, run_id)))
        if row is None:
            raise UnknownId("artifact", artifact_id)
        return _artifact(row)

    async def content(self, artifact: Artifact) -> bytes:
        """The whole file. Raises ArtifactLost if it is gone or was changed, UnknownId if its run was removed."""
        path = self.folder / artifact.run / artifact.id
        try:
            content, sha256 = await anyio.to_thread.run_sync(read_whole, path)
        except OSError as error:
            await self.get(artifact.id, run_id=artifact.run)
            raise ArtifactLost(
                f"artifact {artifact.id} cannot be read: {error.strerror}; run its step again"
            ) from error
        if sha256 != artifact.sha256:
            raise ArtifactLost(f"artifact {artifact.id} was changed on disk and is not used; run its step again")
        return content

    async def of_run(self, run_id: str) -> list[Artifact]:
        sql = "SELECT * FROM artifacts WHERE run = ? ORDER BY created_at, id"
        return [_artifact(row) for row in await self._database.read(lambda tx: tx.rows(sql, (run_id,)))]


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
