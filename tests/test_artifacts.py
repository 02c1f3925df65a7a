"""Artifacts: kept whole in files, found by their id, and refused where the file is not what was kept."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from journals import create, open_own_store

from journal.artifacts import Artifact, ArtifactLost, NewArtifact
from journal.errors import StoreError, UnknownId
from journal.world import World

CONTENT = b"\x00whole \xff" * 1000
NEW = NewArtifact("s", "c_1", "text/plain", CONTENT, frozenset({"private:notes", "user"}))


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
        with pytest.raises(StoreError, match=f"{tmp_path / 'artifacts'}: .*; free some space, nothing kept is lost"):
            await store.artifacts.add(run_id, replace(NEW, content=b""))
        assert await store.artifacts.of_run(run_id) == []
