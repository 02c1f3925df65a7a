"""The asking server over HTTP in the older protocol only: `-m toy_servers.older_asking_http_server LOG PORT`."""

import sys

from toy_servers.asking_server import server
from toy_servers.legacy_http_server import serve_older

if __name__ == "__main__":
    serve_older(server.streamable_http_app(), int(sys.argv[2]))
