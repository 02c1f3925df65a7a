"""The panel's document: one file with the page's style and drawing in it, which reaches for nothing else."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from mcp.server.apps import APP_MIME_TYPE
from mcp_types import ReadResourceResult, TextResourceContents

PANEL_URI = "ui://steprelay/panel"
# The flat key is the older one, which some hosts still read.
PANEL_META: dict[str, Any] = {"ui": {"resourceUri": PANEL_URI}, "ui/resourceUri": PANEL_URI}
"""What a tool carries whose results hosts are to show in the panel."""


def read_panel() -> ReadResourceResult:
    """The document as hosts fetch it; it asks for no origins and no permissions."""
    meta: dict[str, Any] = {"ui": {"csp": {}, "prefersBorder": True}}
    contents = TextResourceContents(uri=PANEL_URI, mime_type=APP_MIME_TYPE, text=panel_html(), _meta=meta)
    return ReadResourceResult(contents=[contents])


def panel_html() -> str:
    """The document. Its own policy allows its one script and its one style by their hashes, and nothing else."""
    style = _asset("page", "page.css") + _asset("panel", "panel.css")
    script = _asset("page", "view.js") + _asset("panel", "panel.js")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; form-action 'none'"
    shell = _asset("panel", "panel.html")
    return shell.replace("POLICY", policy).replace("STYLE", style).replace("SCRIPT", script)


def _asset(package: str, name: str) -> str:
    return files(f"server.{package}").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
