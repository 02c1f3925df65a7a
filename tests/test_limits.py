"""The limits of style that no linter checks, read from the source of the five packages and the tests."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("server", "planner", "executors", "downstream", "journal")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BROAD_EXCEPT: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["steprelay"]["broad-except"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), name_of(path))


def is_named(node: ast.expr | None, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def is_broad(node: ast.AST) -> bool:
    """`except:`, `except Exception`, also in a tuple, and `suppress(Exception)`."""
    if isinstance(node, ast.ExceptHandler):
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        caught = list(node.args)
    else:
        return False
    return any(kind is None or is_named(kind, "Exception", "BaseException") for kind in caught)


def is_export(node: ast.stmt) -> bool:
    """A docstring, a relative import or `__all__`."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.ImportFrom(level=1):
            return True
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return is_named(target, "__all__")
        case _:
            return False


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name_of)
def test_a_module_has_at_most_400_lines_and_a_function_at_most_40(path: Path) -> None:
    functions = [node for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert len(path.read_text().splitlines()) <= 400
    assert [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 40] == []


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name == "__init__.py"], ids=name_of)
def test_a_package_file_holds_only_exports_and_lists_each_of_them(path: Path) -> None:
    body = parse(path).body
    names = [alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names]
    lists = [node.value for node in body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    assert [ast.unparse(node) for node in body if not is_export(node)] == []
    assert sorted(name for listed in lists for name in ast.literal_eval(listed)) == sorted(names)


def test_only_the_model_adapter_imports_litellm() -> None:
    importers = {
        name_of(path) for path in SOURCES if any(name.split(".")[0] == "litellm" for name in imported(parse(path)))
    }
    assert importers <= {"downstream/model.py"}


def test_only_the_files_listed_in_pyproject_catch_every_exception() -> None:
    catchers = {name_of(path) for path in SOURCES if any(is_broad(node) for node in ast.walk(parse(path)))}
    assert catchers == set(BROAD_EXCEPT)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_the_product_never_prints(path: Path) -> None:
    calls = [node for node in ast.walk(parse(path)) if isinstance(node, ast.Call) and is_named(node.func, "print")]
    assert [node.lineno for node in calls] == []
