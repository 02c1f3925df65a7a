"""Artifacts: kept whole in files, found by their id, and refused where the file is not what was kept."""

import hashlib
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from journals import create, open_own_store

from journal.artifacts import Artifact, ArtifactLimits, ArtifactLost, ArtifactNotKept, NewArtifact
from journal.database import Transaction
from journal.errors import Fenced, StoreError, UnknownId
from journal.outlet import Outlet
from journal.store import Store, open_store
from journal.world import World

CONTENT = b"\x00whole \xff" * 1000
NEW = NewArtifact("s", "c_1", "text/plain", CONTENT, frozenset({"private:notes", "user"}))


@asynccontextmanager
async def open_limited(folder: Path, limits: ArtifactLimits, reach: Callable[[str], None]) -> AsyncGenerator[Store]:
    async with open_store(folder / "store.db", World(reach=reach), Outlet(), owner="me", limits=limits) as store:
        yield store


async def test_an_artifact_is_kept_whole_with_its_label_and_lies_in_a_private_file_named_by_its_id(
    tmp_path: Path,
) -> None:
    points: list[str] = []
    async with open_own_store(tmp_path, World(reach=points.append)) as store:
        run_id = await create(store)
        points.clear()
        kept = await store.artifacts.add(run_id, NEW)
        assert kept == Artifact(
            *(kept.id, run_id, "s", "c_1", "text/plain", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), NEW.label)
        )
        assert await store.artifacts.get(kept.id, run_id=run_id) == kept
        assert await store.artifacts.of_run(run_id) == [kept]
        assert await store.artifacts.content(kept) == CONTENT
    path = tmp_path / "artifacts" / run_id / kept.id
    assert [found.name for found in path.parent.iterdir()] == [kept.id]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert points == ["artifact.file", "artifact.row.before", "artifact.row.written", "artifact.row.committed"]


async def test_an_artifact_of_another_run_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        one, other = await create(store, goal="one"), await create(store, goal="other")
        kept = await store.artifacts.add(one, NEW)
        for id_, run_id in ((kept.id, other), ("f_none", one), ("../store.db", one)):
            with pytest.raises(UnknownId, match="no artifact"):
                await store.artifacts.get(id_, run_id=run_id)


async def test_an_artifact_needs_a_run(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        with pytest.raises(UnknownId, match="no run 'r_none'"):
            await store.artifacts.add("r_none", NEW)
        assert await store.artifacts.of_run("r_none") == []


async def test_a_file_that_is_gone_or_was_changed_is_not_used(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        kept = await store.artifacts.add(run_id, NEW)
        path = tmp_path / "artifacts" / run_id / kept.id
        path.write_bytes(CONTENT[:-1] + b"x")
        with pytest.raises(ArtifactLost, match=f"artifact {kept.id} was changed on disk and is not used; run its step"):
            await store.artifacts.content(kept)
        path.unlink()
        with pytest.raises(ArtifactLost, match="cannot be read: No such file or directory; run its step again"):
            await store.artifacts.content(kept)


async def test_a_disk_that_does_not_take_the_file_is_named_and_nothing_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        with pytest.raises(ArtifactNotKept, match=f"{tmp_path / 'artifacts'}: .*; free some space there"):
            await store.artifacts.add(run_id, replace(NEW, content=b""))
        assert await store.artifacts.of_run(run_id) == []


async def test_a_file_that_cannot_be_put_in_its_place_leaves_no_part_of_it(tmp_path: Path) -> None:
    async with open_own_store(tmp_path, World(new_id=lambda prefix: f"{prefix}_1")) as store:
        run_id = await create(store)
        (tmp_path / "artifacts" / run_id / "f_1").mkdir(parents=True)
        with pytest.raises(ArtifactNotKept):
            await store.artifacts.add(run_id, NEW)
        assert [path.name for path in (tmp_path / "artifacts" / run_id).iterdir()] == ["f_1"]


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(Fenced("r_1"), Fenced), (StoreError("the disk is full"), ArtifactNotKept)],
    ids=["fenced", "full"],
)
async def test_a_file_whose_row_cannot_be_written_is_removed(
    raised: Exception, seen: type[Exception], tmp_path: Path
) -> None:
    def refuse(tx: Transaction) -> None:
        raise raised

    async with open_own_store(tmp_path) as store:
        run_id = await create(store)
        with pytest.raises(seen, match=str(raised)):
            await store.artifacts.guarded(refuse).add(run_id, NEW)
        assert list((tmp_path / "artifacts" / run_id).iterdir()) == []


async def test_a_run_and_a_store_keep_so_much_and_a_result_beyond_that_is_never_written(tmp_path: Path) -> None:
    half = replace(NEW, content=bytes(1 << 19))
    points: list[str] = []
    async with open_limited(tmp_path, ArtifactLimits(run_mib=1, store_mib=2), points.append) as store:
        one, two, three = [await create(store, goal=goal) for goal in ("one", "two", "three")]
        for run_id in (one, one, two, two):
            await store.artifacts.add(run_id, half)
        points.clear()
        for run_id, limit in ((one, "retention.run_artifacts_mib"), (three, "retention.store_artifacts_mib")):
            with pytest.raises(ArtifactNotKept, match=limit):
                await store.artifacts.add(run_id, NEW)
    assert points == []
    assert not (tmp_path / "artifacts" / three).exists()


async def test_of_two_results_at_once_only_one_takes_the_last_room(tmp_path: Path) -> None:
    files, both_written, refused = list[str](), threading.Event(), list[str]()

    def meet(point: str) -> None:
        if point == "artifact.file":
            files.append(point)
            if len(files) == 2:
                both_written.set()
        elif point == "artifact.row.before":
            assert both_written.wait(5)

    async def add() -> None:
        try:
            await store.artifacts.add(run_id, replace(NEW, content=bytes(700_000)))
        except ArtifactNotKept as error:
            refused.append(str(error))

    async with open_limited(tmp_path, ArtifactLimits(run_mib=1), meet) as store:
        run_id = await create(store)
        async with anyio.create_task_group() as group:
            group.start_soon(add)
            group.start_soon(add)
        assert len(refused) == len(await store.artifacts.of_run(run_id)) == 1
        assert len(list((tmp_path / "artifacts" / run_id).iterdir())) == 1
