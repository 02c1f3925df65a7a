import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("package", ["server", "planner", "executors", "downstream", "journal"])
def test_no_other_installed_distribution_claims_our_import_name(package: str) -> None:
    assert set(packages_distributions().get(package, [])) <= {"steprelay"}


def test_every_locked_package_comes_from_the_public_index_with_hashes() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    locked = [package for package in lock["package"] if package["name"] != "steprelay"]
    files = [file for package in locked for file in [*package.get("wheels", []), package.get("sdist")] if file]
    assert [file["url"] for file in files if not file["hash"].startswith("sha256:")] == []
