"""litellm's HTTP clients, kept from following a redirect: it would take key and prompt to whoever it names."""

from typing import Any
from urllib.parse import urlsplit

from journal.values import Json


class StayingClients:
    """litellm's store of its clients, through which all of them pass once they are made."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set_cache(self, key: str, value: Any, **more: Json) -> None:
        """Keep the client, which follows no redirect from now on."""
        # litellm's own make their inner client anew by this; OpenAI's keep theirs apart.
        known: list[Any] = [value, getattr(value, "client", None), getattr(value, "_client", None)]
        for client in known:
            if hasattr(client, "follow_redirects"):
                client.follow_redirects = False
        self._store.set_cache(key, value, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def sent_elsewhere(headers: Json) -> str | None:
    """The words for a failure that is a redirect, with the host that it names; None for any other.

    Its status is lost on most of litellm's ways.
    """
    if (location := headers.get("location")) is None:
        return None
    host = urlsplit(str(location)).hostname or "another path of its own"
    return f"its server sends to {host[:100]}, where nothing is sent to; set model_options.api_base to where it is"
