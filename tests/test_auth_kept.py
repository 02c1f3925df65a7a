"""Where logins are kept, what addresses their secrets may go to, and how settings ask for them."""

import importlib
import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import anyio
import httpx2
import pytest
from pydantic import SecretStr
from tool_connections import remote, stdio

from downstream.auth.access import Access, access_to, unlearned
from downstream.auth.addresses import UnsafeAddress, check_address, is_same_place
from downstream.auth.kept import KeptLogin, Login, LoginNotKept
from downstream.auth.login import Door, LoginFailed, log_in
from downstream.auth.tokens import NotRenewed, first_line, renewed
from downstream.settings import AuthSettings
from journal.locks import open_lock
from journal.outlet import Outlet
from journal.settings import Secret, state_folder
from journal.world import World
from server.commands.config import shown_settings
from server.settings import Found, Settings, SettingsError, load_settings

SERVER = remote("vault", "https://vault.example.com/mcp")
LOGIN = Login(
    access_token="at-0123456789", refresh_token="rt-0123456789", token_endpoint="https://a/token", client_id="c"
)
KEYRING = """
class Ring:
    kept = {}
RING = Ring()
def get_keyring():
    return RING
def _check():
    from .errors import KeyringError
    if Ring.kept.get("broken"):
        raise KeyringError("locked")
def get_password(service, key):
    _check()
    return Ring.kept.get((service, key))
def set_password(service, key, text):
    _check()
    Ring.kept[service, key] = text
def delete_password(service, key):
    _check()
    if Ring.kept.pop((service, key), None) is None:
        from .errors import KeyringError
        raise KeyringError("nothing there")
"""


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[dict[object, object]]:
    """A package `keyring` that keeps in memory; `broken` in it has it fail."""
    package = tmp_path / "keyring"
    package.mkdir()
    (package / "__init__.py").write_text(KEYRING)
    (package / "errors.py").write_text("class KeyringError(Exception):\n    pass\n")
    sys.path.insert(0, str(tmp_path))
    others: dict[str, ModuleType] = {
        name: sys.modules.pop(name) for name in ("keyring", "keyring.errors") if name in sys.modules
    }
    yield importlib.import_module("keyring").Ring.kept
    for name in ("keyring", "keyring.errors"):
        sys.modules.pop(name, None)
    sys.modules.update(others)
    sys.path.remove(str(tmp_path))


def file_of_login() -> Path:
    [path] = (state_folder() / "logins").glob("*.json")
    return path


def test_a_login_is_a_file_that_only_its_user_can_read() -> None:
    kept = KeptLogin(SERVER)
    assert (kept.version, kept.read(), kept.forget()) == (None, None, False)
    where = kept.write(LOGIN)
    path = file_of_login()
    assert where == f"in {path}, which only you can read"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert KeptLogin(SERVER).read() == LOGIN
    assert [each.name for each in path.parent.iterdir()] == [path.name], "a draft was left"


def test_a_file_that_was_left_open_to_others_is_closed_when_it_is_read() -> None:
    KeptLogin(SERVER).write(LOGIN)
    file_of_login().chmod(0o644)
    assert KeptLogin(SERVER).read() == LOGIN
    assert stat.S_IMODE(file_of_login().stat().st_mode) == 0o600


def test_a_change_by_another_process_shows_and_another_address_is_another_login() -> None:
    mine, theirs = KeptLogin(SERVER), KeptLogin(SERVER)
    mine.write(LOGIN)
    before = mine.version
    theirs.write(LOGIN)
    assert mine.version != before
    assert KeptLogin(remote("vault", "https://vault.example.com/other")).read() is None
    assert theirs.forget()
    assert mine.version is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"access_token": "x"}', '{"in": "keyring"}'])
def test_a_file_that_holds_no_login_is_none(text: str) -> None:
    KeptLogin(SERVER).write(LOGIN)
    file_of_login().write_text(text)
    assert KeptLogin(SERVER).read() is None


def test_a_login_that_cannot_be_written_is_told_with_the_place_and_without_the_token() -> None:
    kept = KeptLogin(SERVER)
    kept.write(LOGIN)
    path = file_of_login()
    path.unlink()
    path.mkdir()
    with pytest.raises(LoginNotKept, match="the login at 'vault' cannot be kept") as refused:
        kept.write(LOGIN)
    assert "0123456789" not in str(refused.value)
    assert [each.name for each in path.parent.iterdir()] == [path.name], "a draft was left"


async def test_without_a_state_folder_there_is_no_login_and_none_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    kept = KeptLogin(SERVER)
    assert (kept.version, kept.read()) == (None, None)
    with pytest.raises(LoginNotKept, match="set XDG_STATE_HOME to another folder"):
        async with kept.open_lock():
            raise AssertionError("there is nowhere to hold a lock")


def test_no_text_form_of_a_login_shows_its_tokens() -> None:
    assert "0123456789" not in f"{LOGIN!r} {LOGIN}"


def test_with_a_keyring_the_file_only_says_so(ring: dict[object, object]) -> None:
    kept = KeptLogin(SERVER)
    assert kept.write(LOGIN) == "in the system's keyring (keyring)"
    assert json.loads(file_of_login().read_text()) == {"in": "keyring"}
    assert (kept.read(), len(ring)) == (LOGIN, 1)
    assert kept.forget()
    assert (ring, kept.read(), kept.forget()) == ({}, None, False)


def test_a_keyring_that_fails_leaves_it_to_the_file_and_to_a_new_login(ring: dict[object, object]) -> None:
    kept = KeptLogin(SERVER)
    kept.write(LOGIN)
    ring["broken"] = True
    assert kept.read() is None
    assert "only you can read" in kept.write(LOGIN)
    assert kept.read() == LOGIN


def test_a_keyring_that_stands_for_none_is_none(ring: dict[object, object]) -> None:
    sys.modules["keyring"].Ring.__module__ = "keyring.backends.fail"
    assert "only you can read" in KeptLogin(SERVER).write(LOGIN)
    assert ring == {}


async def test_a_lock_is_held_by_one_and_waited_for_by_others(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    async with open_lock(lock):
        with pytest.raises(TimeoutError), anyio.fail_after(0.1):
            async with open_lock(lock):
                raise AssertionError("held twice")
    with anyio.fail_after(5):
        async with open_lock(lock):
            assert lock.exists()


@pytest.mark.parametrize(
    ("address", "server", "fits"),
    [
        ("https://auth.example.com/token", "https://vault.example.com/mcp", True),
        ("http://auth.example.com/token", "https://vault.example.com/mcp", False),
        ("http://127.0.0.1:8080/token", "http://127.0.0.1:9090/mcp", True),
        ("http://localhost:8080/token", "http://localhost:9090/mcp", True),
        ("http://localhost.example.com/token", "http://localhost:9090/mcp", False),
        ("http://10.0.0.5/token", "http://10.0.0.5/mcp", False),
        ("https://10.0.0.5/token", "https://10.0.0.5/mcp", True),
        ("https://169.254.169.254/latest", "https://vault.example.com/mcp", False),
        ("http://127.0.0.1:8080/token", "https://vault.example.com/mcp", False),
        ("ftp://auth.example.com/token", "https://vault.example.com/mcp", False),
    ],
)
def test_secrets_of_a_login_go_to_safe_addresses_only(address: str, server: str, fits: bool) -> None:
    if fits:
        check_address(httpx2.URL(address), server=server)
    else:
        with pytest.raises(UnsafeAddress):
            check_address(httpx2.URL(address), server=server)


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("http://vault.example.com/other", True),
        ("https://vault.example.com/mcp", True),
        ("https://vault.example.com:8443/mcp", False),
        ("http://vault.example.com:81/mcp", False),
        ("http://example.com/mcp", False),
    ],
)
def test_a_token_goes_to_its_own_server_only(address: str, same: bool) -> None:
    assert is_same_place(httpx2.URL(address), httpx2.URL("http://vault.example.com/mcp")) is same


def test_an_error_is_told_without_the_lines_that_quote_an_answer() -> None:
    assert first_line(ValueError("Invalid token response: 1 error\n  input_value={'refresh_token': 'rt-1'}")) == (
        "Invalid token response: 1 error"
    )
    assert first_line(TimeoutError()) == "TimeoutError"


def test_a_secret_learned_later_is_taken_out_from_then_on_and_only_the_latest_are_kept() -> None:
    outlet = Outlet([("KEY", "given-0123456789")])
    for number in range(10):
        outlet.learn("login at vault", f"learned-{number:03}-0123456789")
    outlet.learn("login at vault", "given-0123456789")
    assert outlet.text("given-0123456789 learned-009-0123456789") == "[secret:KEY] [secret:login at vault]"
    assert outlet.text("learned-002-0123456789") == "[secret:login at vault]"
    assert outlet.text("learned-001-0123456789") == "learned-001-0123456789"


async def test_a_token_is_put_on_requests_to_its_server_only_and_never_over_plain_http() -> None:
    for address, url in (
        ("https://vault.example.com/mcp", "https://other.example.com/mcp"),
        ("http://v.example/mcp",) * 2,
    ):
        server, told = remote("vault", address), anyio.Event()
        KeptLogin(server).write(LOGIN)
        access = Access(server, World(), unlearned)
        flow = access.header(told.set).async_auth_flow(httpx2.Request("POST", url))
        sent = await anext(flow)
        assert "authorization" not in sent.headers
        with pytest.raises(StopAsyncIteration):
            await flow.asend(httpx2.Response(401, headers={"www-authenticate": "Bearer"}))
        assert (told.is_set(), access.is_due()) == (True, True)


async def test_a_401_that_asks_for_no_bearer_token_is_no_matter_of_a_login() -> None:
    access = Access(SERVER, World(), unlearned)
    flow = access.header().async_auth_flow(httpx2.Request("POST", "https://vault.example.com/mcp"))
    await anext(flow)
    with pytest.raises(StopAsyncIteration):
        await flow.asend(httpx2.Response(401, headers={"www-authenticate": "Basic realm=x"}))
    assert not access.is_due()


def test_a_server_with_a_header_of_its_own_or_without_an_address_has_no_login() -> None:
    keyed = SERVER.model_copy(update={"headers": {"authorization": "Bearer k"}})
    assert access_to(keyed, World(), unlearned) is None
    assert access_to(stdio("box", ["x"]), World(), unlearned) is None
    assert access_to(SERVER, World(), unlearned) is not None


async def test_an_authorization_server_that_cannot_be_reached_costs_no_login() -> None:
    old = LOGIN.model_copy(update={"token_endpoint": "http://127.0.0.1:9/token"})
    with pytest.raises(NotRenewed, match=r"cannot be reached \(ConnectError\)") as failed:
        await renewed(old, server="http://127.0.0.1:9/mcp", now=0)
    assert not failed.value.refused


async def test_client_credentials_are_logged_in_with_by_nobody() -> None:
    auth = AuthSettings(kind="client_credentials", client_id="robot", client_secret=SecretStr("hidden-0123456789"))

    async def show(address: str) -> None:
        raise AssertionError(address)

    with pytest.raises(LoginFailed, match="its settings have no place for one"):
        await log_in(Door(remote("vault", "https://vault.example.com/mcp", auth=auth), World(), show))


def load(folder: Path, auth: str, **environ: str) -> Settings:
    path = folder / "steprelay.yaml"
    path.write_text(
        f"mcpServers: {{vault: {{url: 'https://v.example/mcp'}}}}\nserver_options: {{vault: {{auth: {auth}}}}}\n"
    )
    return load_settings(Found(path, "option"), environ=environ)


def test_variables_and_secrets_of_a_login_are_read_from_settings_and_never_shown(tmp_path: Path) -> None:
    text = "{kind: client_credentials, client_id: robot, client_secret: '${VAULT}', scopes: [a, b]}"
    settings = load(tmp_path, text, VAULT="hidden-0123456789")
    auth = settings.servers[0].options.auth
    assert auth is not None
    assert auth.client_secret is not None
    assert (auth.client_secret.get_secret_value(), auth.scopes) == ("hidden-0123456789", ("a", "b"))
    assert settings.secrets == (Secret("VAULT", "hidden-0123456789"),)
    assert "hidden" not in f"{settings!r} {shown_settings(settings)}"


def test_a_secret_written_out_in_a_login_is_one_too(tmp_path: Path) -> None:
    settings = load(tmp_path, "{kind: oauth, client_id: desk, client_secret: hidden-0123456789}")
    assert settings.secrets == (Secret("client_secret", "hidden-0123456789"),)


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ("{kind: client_credentials, client_id: robot}", "client_credentials needs client_id and client_secret"),
        ("{kind: oauth, client_secret: hidden-0123456789}", "client_secret needs the client_id that it belongs to"),
        ("{kind: oauth, client_id: '${NOT_SET}'}", "variable NOT_SET is not set"),
        ("{kind: oidc}", "server_options.vault.auth.kind"),
        ("oauth", "server_options.vault.auth"),
    ],
)
def test_a_login_that_cannot_work_is_an_error_of_the_settings(tmp_path: Path, auth: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as refused:
        load(tmp_path, auth)
    assert "hidden" not in str(refused.value)
