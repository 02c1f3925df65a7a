"""What hosts see over MCP: tools, forms, resources, and the serving itself."""

__all__: list[str] = []
