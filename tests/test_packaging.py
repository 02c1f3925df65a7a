import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("package", ["server", "planner", "executors", "downstream", "journal"])
def test_no_other_installed_distribution_claims_our_import_name(package: str) -> None:
    assert set(packages_distributions().get(package, [])) <= {"steprelay"}


def test_every_locked_package_has_hashes_and_names_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=\S+==)", lock, flags=re.MULTILINE)[1:]
    assert len(entries) > 50
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in lock


def test_every_runtime_dependency_is_locked() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    names = [re.split(r"[\[<>=!~ ]", dependency, maxsplit=1)[0].replace(".", "-") for dependency in declared]
    assert [name for name in names if f"\n{name}==" not in lock] == []
