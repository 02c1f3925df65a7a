"""What a person sees and answers at a terminal."""

__all__: list[str] = []
