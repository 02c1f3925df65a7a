"""The durable record of runs, and the engines that drive them."""

__all__: list[str] = []
