"""Small facts that one run learns and the next may use."""

from pathlib import Path

from journals import open_own_store

from journal.remembered import Remembered


async def test_what_is_remembered_is_there_for_this_owner_and_kind_until_it_is_replaced(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        await store.remembered.put("catalogue", "notes", {"tools": ["ä"]})
        await store.remembered.put("catalogue", "notes", {"tools": ["b"]})
        await store.remembered.put("model", "notes", [1, None])
    async with open_own_store(tmp_path) as store:
        assert await store.remembered.get("catalogue", "notes") == {"tools": ["b"]}
        assert await store.remembered.get("model", "notes") == [1, None]
        assert await store.remembered.get("model", "other") is None
        other = Remembered(store.database, store.world, owner="other")
        assert await other.get("catalogue", "notes") is None
