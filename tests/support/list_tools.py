"""Opens the product of a settings file here, lists its tools as a host does, and says if litellm came along."""

import sys
from pathlib import Path

import anyio
from mcp import Client

from journal.world import World
from server.assembly import open_product
from server.host.mcp_server import build_host_server
from server.product import Product
from server.settings import find_settings, load_settings


async def main(config: Path) -> None:
    """Print how many tools there are, and whether litellm was imported."""
    settings = load_settings(find_settings(config, environ={}, cwd=None), environ={})
    async with open_product(settings, world=World(), environ={}) as product:

        async def ready() -> Product:
            return product

        async with Client(build_host_server(ready, state_key=bytes(32))) as client:
            listed = await client.list_tools()
    sys.stdout.write(f"{len(listed.tools)} {'litellm' in sys.modules}")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
