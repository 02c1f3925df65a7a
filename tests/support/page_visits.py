"""The page without a socket: its application, and a browser's part of the talk with it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httpx

from journal.actions import Action, NewAction, create_action
from server.page.app import build_app
from server.page.desk import Desk
from server.page.guard import Guard
from server.page.place import Place
from server.page.sessions import Sessions, new_code
from server.product import Product, Request

PORT = 20_001
ORIGIN = f"http://127.0.0.1:{PORT}"


@dataclass
class Visit:
    """What one browser sends; `key` is what the page's script keeps of a session."""

    product: Product
    place: Place
    client: httpx.AsyncClient
    key: str = ""

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers={"x-steprelay-key": self.key} | headers)

    async def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        headers = {"x-steprelay-key": self.key, "origin": ORIGIN, "sec-fetch-site": "same-origin"}
        return await self.client.post(path, json=dict(body), headers=headers)

    def code(self) -> str:
        """A code as `steprelay ui` makes it."""
        return new_code(self.place.key(PORT), self.product.store.world)

    async def sign_in(self, **offer: str) -> None:
        """Begin a session, by a code if nothing else is offered."""
        answer = await self.post("/api/session", offer or {"code": self.code()})
        assert answer.status_code == 200, answer.text
        self.key = answer.json()["key"]

    async def actions(self) -> list[Any]:
        """All action cards, in order."""
        answer = await self.get("/api/state")
        assert answer.status_code == 200, answer.text
        return [card for run in answer.json()["runs"] for card in run["actions"]]

    async def choose(self, card: Mapping[str, Any], choice: str, **more: Any) -> httpx.Response:
        named = {"action_id": card["action_id"], "choice": choice, "digest": card["digest"]}
        return await self.post("/api/decide", named | more)


@asynccontextmanager
async def open_visit(product: Product) -> AsyncGenerator[Visit]:
    """The page of a product as a browser of nobody's meets it."""
    place = Place(product.store.database.path)
    sessions = Sessions(product.store, place.key(PORT))
    app = build_app(Desk(product), sessions, partial(place.proof, PORT), port=PORT)
    transport = httpx.ASGITransport(cast("Any", Guard(app, port=PORT)))
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield Visit(product, place, client)


async def start_waiting(product: Product) -> str:
    """A run that waits for its plan to be approved."""
    run_id = await product.start(Request("Do what is needed.", review_plan=True))
    await product.until(run_id, lambda run: run.status == "awaiting_approval")
    return run_id


async def add_action(product: Product, run_id: str, **given: Any) -> Action:
    """A call that waits in a run, made by hand."""
    usual: dict[str, Any] = {
        "key": "k/approval",
        "kind": "call",
        "level": "host",
        "question": "Call it?",
        "subject": "s",
    }
    arguments = given.get("arguments", {})
    new = NewAction(**usual | {"arguments": arguments, "binding": arguments} | given)
    store = product.store
    return await store.database.write(
        "ask", lambda tx: create_action(tx, run_id, new, world=store.world, outlet=store.outlet)
    )
