"""What hosts may read about runs: the view, the report, the events and the artifacts."""

import base64
import json
import re

from mcp_types import (
    BlobResourceContents,
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from journal.errors import SteprelayError
from server.product import Product
from server.views.report import run_report
from server.views.view_size import shortened

TEMPLATES = (
    ResourceTemplate(
        uri_template="run://{run_id}", name="run", mime_type="application/json", description="A run in full, as JSON."
    ),
    ResourceTemplate(
        uri_template="run://{run_id}/report",
        name="report",
        mime_type="text/markdown",
        description="Plan, steps, findings and sources of a run, as Markdown with a mermaid plan.",
    ),
    ResourceTemplate(
        uri_template="run://{run_id}/events",
        name="events",
        mime_type="application/x-ndjson",
        description="Everything that happened in a run, one JSON object a line.",
    ),
    ResourceTemplate(
        uri_template="run://{run_id}/artifacts/{artifact_id}",
        name="artifact",
        mime_type="application/octet-stream",
        description="A large result of a run, whole.",
    ),
)

_URI = re.compile(r"run://(?P<run>[^/]+)(?:/(?P<part>report|events|artifacts/(?P<artifact>[^/]+)))?")
_LISTED = 20


class NoSuchResource(SteprelayError):
    """A resource URI that has no meaning here."""

    def __init__(self, uri: str) -> None:
        shapes = ", ".join(template.uri_template for template in TEMPLATES)
        super().__init__(f"there is no resource {uri!r}; there are: {shapes}")


async def read_resource(product: Product, uri: str) -> ReadResourceResult:
    """Raises NoSuchResource or UnknownId."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise NoSuchResource(uri)
    run_id = found["run"]
    if found["artifact"] is not None:
        return await _artifact(product, uri, run_id=run_id, artifact_id=found["artifact"])
    if found["part"] == "report":
        text, media_type = await run_report(product, run_id), "text/markdown"
    elif found["part"] == "events":
        text, media_type = await _events(product, run_id), "application/x-ndjson"
    else:
        view = await product.view(run_id, detail=True)
        text, media_type = json.dumps(view.model_dump(mode="json"), ensure_ascii=False), "application/json"
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=text, mime_type=media_type)])


async def listed_resources(product: Product) -> ListResourcesResult:
    """The reports of the latest runs."""
    runs = await product.store.runs(limit=_LISTED)
    return ListResourcesResult(
        resources=[
            Resource(
                uri=f"run://{run.id}/report",
                name=f"{run.id}/report",
                title=product.store.outlet.text(shortened(run.goal, 80)),
                description=f"Report of a run that is {run.status}.",
                mime_type="text/markdown",
            )
            for run in runs
        ]
    )


async def _events(product: Product, run_id: str) -> str:
    run, lines, last = await product.store.run(run_id), list[str](), 0
    while last < run.last_seq and (events := await product.store.events(run_id, after=last)):
        lines += [f"{json.dumps(event.to_json(), ensure_ascii=False)}\n" for event in events]
        last = events[-1].seq
    return "".join(lines)


async def _artifact(product: Product, uri: str, *, run_id: str, artifact_id: str) -> ReadResourceResult:
    await product.store.run(run_id)
    artifact = await product.store.artifacts.get(artifact_id, run_id=run_id)
    content = await product.store.artifacts.content(artifact)
    outlet, media_type = product.store.outlet, artifact.media_type
    if media_type.startswith("text/") or media_type == "application/json":
        text = outlet.text(content.decode(errors="replace"))
        if not outlet.names_in_bytes(text.encode()):
            return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=text, mime_type=media_type)])
    if names := outlet.names_in_bytes(content):
        told = f"This file holds {', '.join(names)} and is not handed on. A person finds it in the state folder."
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=told, mime_type="text/plain")])
    blob = base64.b64encode(content).decode()
    return ReadResourceResult(contents=[BlobResourceContents(uri=uri, blob=blob, mime_type=media_type)])
