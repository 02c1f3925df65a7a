"""Text that goes round in circles: what a small model says for ever once it has lost its way."""

_PERIOD = 60
"""The longest part that is looked for: what models were seen to repeat is a sign, a number or a short line."""
_TAIL = 1_200
"""So much must be one such part again and again, at least twenty times.

Tables of zeros, base64 of nothing and indentation do the same for some hundred characters. What is longer is seldom
meant, and where it is, the model is asked for something shorter, as after every reply that is cut. A model that says a
character with each token has then said a fifth of the tokens that a plan may have.
"""
_EVERY = 300
"""New characters between two looks, so that a look costs nothing beside what it waits for."""


def goes_round(text: str) -> bool:
    """Whether the end of a text is one short part again and again, or white space alone."""
    tail = text[-_TAIL:]
    if len(tail) < _TAIL:
        return False
    return tail.isspace() or any(tail[period:] == tail[:-period] for period in range(1, _PERIOD + 1))


class Circles:
    """Listens to a text that comes in pieces; holds no more of it than its end."""

    def __init__(self) -> None:
        self._tail = ""
        self._new = 0

    def goes_round_with(self, piece: str) -> bool:
        """Whether the text goes round in circles now that this has come; looked at every so often only."""
        self._tail += piece
        self._new += len(piece)
        if self._new < _EVERY:
            return False
        self._tail, self._new = self._tail[-_TAIL:], 0
        return goes_round(self._tail)
