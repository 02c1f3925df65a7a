"""The artifacts that a step may use: those of its own calls and of the steps that it needs, of this run."""

import base64
import json
from collections.abc import Collection
from dataclasses import dataclass

from journal.artifacts import Artifact
from journal.errors import StoreError, UnknownId
from journal.run_journal import RunJournal
from journal.values import Json, Value

from .paths import ReferenceMissing, follow


@dataclass(frozen=True)
class Opened:
    """An artifact with its content; `text` is None for content that is no UTF-8."""

    artifact: Artifact
    content: bytes
    text: str | None

    @property
    def data(self) -> Json:
        """JSON parsed, other text as it is, anything else in base64."""
        if self.text is None:
            return base64.b64encode(self.content).decode()
        return self._parsed() if self.artifact.media_type.endswith("json") else self.text

    def at(self, path: str) -> Json:
        """What stands at a path of its JSON. Raises ReferenceMissing."""
        below = path.removeprefix("$").removeprefix(".")
        return follow(self._parsed(), f".{below}" if below[:1] not in ("", "[") else below, start=self.artifact.id)

    def _parsed(self) -> Json:
        try:
            return json.loads(self.content)
        except ValueError:
            raise ReferenceMissing(f"artifact {self.artifact.id} is {self.artifact.media_type}, not JSON") from None
        except RecursionError:
            raise ReferenceMissing(f"artifact {self.artifact.id} is nested too deeply to be read as JSON") from None


@dataclass(frozen=True)
class OwnArtifacts:
    """The artifacts of these steps of the run; all others are as if they did not exist."""

    journal: RunJournal
    steps: Collection[str]

    async def any(self) -> bool:
        return any(map(self._owned, await self.journal.artifacts.of_run(self.journal.run.id)))

    async def open(self, artifact_id: str) -> Opened:
        """Raises ReferenceMissing for an unknown or foreign artifact, and for one that cannot be read."""
        try:
            artifact = await self.journal.artifacts.get(artifact_id, run_id=self.journal.run.id)
        except UnknownId:
            raise await self._missing(artifact_id) from None
        if not self._owned(artifact):
            raise await self._missing(artifact_id)
        try:
            content = await self.journal.artifacts.content(artifact)
        except StoreError as error:
            raise ReferenceMissing(str(error)) from error
        return Opened(artifact, content, _text(content))

    async def value(self, artifact_id: str, path: str | None) -> Value:
        """What a `$artifact` reference stands for. Raises ReferenceMissing."""
        opened = await self.open(artifact_id)
        return Value(opened.data if path is None else opened.at(path), opened.artifact.label)

    def _owned(self, artifact: Artifact) -> bool:
        return artifact.step in self.steps

    async def _missing(self, artifact_id: str) -> ReferenceMissing:
        known = [
            artifact.id
            for artifact in await self.journal.artifacts.of_run(self.journal.run.id)
            if self._owned(artifact)
        ]
        there = f"there are {', '.join(known[:10])}" if known else "there are none"
        return ReferenceMissing(f"artifact {artifact_id} is not among this step's inputs and calls; {there}")


def _text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
