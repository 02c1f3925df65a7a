"""The panel: a run with its plan and waiting actions, shown inside a host as an MCP App."""
