"""Text in pieces without a secret."""

from __future__ import annotations


class Veil:
    """Covers a secret in a text that comes in pieces, even where it is spread over several of them."""

    def __init__(self, secret: str) -> None:
        self._secret, self._held = secret, ""

    def over(self, piece: str) -> str:
        """The text that may be shown by now; what may turn out to be the secret's beginning is held back."""
        if not self._secret:
            return piece
        text = (self._held + piece).replace(self._secret, "[key]")
        longest = min(len(text), len(self._secret) - 1)
        held = next((size for size in range(longest, 0, -1) if text.endswith(self._secret[:size])), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held
