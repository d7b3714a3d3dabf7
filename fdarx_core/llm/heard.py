"""What came of a streamed reply so far."""

from __future__ import annotations

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure, Piece
from fdarx_core.llm.guards import BLANK_CHARACTERS, cut_whitespace_loop
from fdarx_core.llm.veil import Veil


class Heard:
    """Adds up the pieces of one try."""

    def __init__(self, veil: Veil) -> None:
        self.ended = False
        self._veil = veil
        self._shown: list[str] = []
        self._refusal = self._finish_reason = ""
        self._counts: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._blanks = 0

    @property
    def begun(self) -> bool:
        """True where text was shown: from then on nothing is tried again."""
        return bool(self._shown)

    def add(self, piece: Piece) -> str:
        """The text to show. `ended` is set where no more is needed: the reply is whole, or a loop of white space."""
        self._finish_reason = piece.finish_reason or self._finish_reason
        self._refusal += piece.refusal
        prompt, cached, completion, written = self._counts
        self._counts = (
            max(prompt, piece.prompt_tokens),
            max(cached, piece.cached_tokens),
            max(completion, piece.completion_tokens),
            max(written, piece.written_tokens),
        )
        text = self._show(self._veil.over(piece.text))
        self._blanks = len(text) - len(text.rstrip()) + (0 if text.strip() else self._blanks)
        self.ended = piece.last or self._blanks >= BLANK_CHARACTERS
        return text

    def end(self) -> str:
        """The last text to show. Raises Failure transient_cut_body where the server did not say that it was done."""
        if not (self.ended or self._finish_reason):
            raise Failure(f"{TRANSIENT}cut_body", "the stream ended before the reply did")
        return self._show(self._veil.rest())

    def answer(self) -> Answer:
        """The whole reply, as the same server gives it where it is asked for in one piece."""
        finish_reason = self._finish_reason or "stop"
        answer = Answer(self._refusal or "".join(self._shown), finish_reason, *self._counts)
        if self._refusal or finish_reason == "refusal":
            answer.reason = "refusal"
        elif not answer.text and finish_reason != "length":
            answer.reason = "null_content"
        else:
            cut_whitespace_loop(answer)
        return answer

    def broken(self, failure: Failure) -> Answer:
        """The reply of a try that failed: what was shown of it, else what was wrong."""
        text = "".join(self._shown) if self.begun else failure.detail
        return Answer(text, "error", *self._counts, failure.reason)

    def _show(self, text: str) -> str:
        mended = text.encode("utf-8", "replace").decode()  # half surrogate pairs, which servers do send
        if mended:
            self._shown.append(mended)
        return mended
