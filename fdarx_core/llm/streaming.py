"""Streamed replies: the events of the stream, text without secrets, and the completion that they add up to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fdarx_core.llm.credentials import HIDDEN
from fdarx_core.llm.failures import TRANSIENT, Failure
from fdarx_core.llm.wire_formats import BLANK_CHARACTERS, Completion, TokenUsage, cut_whitespace_loop

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """Decodes the data of one stream of server-sent events, which may be cut into portions anywhere.

    Names, comments, other fields and events without data are skipped. Source: WHATWG HTML standard, "Server-sent
    events".
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._after_return = False
        self._data: list[bytes] = []

    def feed(self, portion: bytes) -> Iterator[bytes]:
        """Yield the data of the events that end in this portion."""
        if not portion:
            return
        if self._after_return:  # the second half of a line end
            portion = portion.removeprefix(b"\n")
        self._after_return = portion.endswith(b"\r")
        first, *lines = _LINE_END.split(portion)
        self._line.append(first)
        for line in lines:
            yield from self._end_line(b"".join(self._line))
            self._line = [line]

    def finish(self) -> Iterator[bytes]:
        """Yield the data of the last event where it lacks only its final blank line, as some servers send it."""
        yield from self._end_line(b"".join(self._line))
        yield from self._end_line(b"")

    def _end_line(self, line: bytes) -> Iterator[bytes]:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif not line and self._data:
            yield b"\n".join(self._data)
            self._data = []


class Redactor:
    """Replaces secrets in a streamed text, also where one is spread over several pieces."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets, self._held_back = secrets, ""

    def feed(self, piece: str) -> str:
        """Return the text that is safe to show so far; a possible beginning of a secret is held back."""
        text = self._held_back + piece
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        sizes = [size for secret in self._secrets for size in range(len(secret)) if text.endswith(secret[:size])]
        size = max(sizes, default=0)
        self._held_back = text[len(text) - size :]
        return text[: len(text) - size]

    def finish(self) -> str:
        """Return what was held back, at the end of the text."""
        rest, self._held_back = self._held_back, ""
        return rest


class StreamAccumulator:
    """Adds up the deltas of one attempt at a streamed reply."""

    def __init__(self, redactor: Redactor) -> None:
        self.ended = False
        self._redactor = redactor
        self._shown: list[str] = []
        self._refusal = self._finish_reason = ""
        self._usage = TokenUsage()
        self._blanks = 0

    @property
    def started(self) -> bool:
        """Whether text was shown, after which no attempt follows."""
        return bool(self._shown)

    def add(self, delta: Completion) -> str:
        """Return the text to show. Sets `ended` where the reply is whole, or a loop of white space."""
        self._finish_reason = delta.finish_reason or self._finish_reason
        self._usage = TokenUsage(*map(max, self._usage, delta.usage))
        refused = delta.reason == "refusal" and delta.finish_reason != "refusal"  # which is not shown
        self._refusal += delta.text if refused else ""
        text = "" if refused else self._show(self._redactor.feed(delta.text))
        self._blanks = len(text) - len(text.rstrip()) + (0 if text.strip() else self._blanks)
        self.ended = delta.last or self._blanks >= BLANK_CHARACTERS
        return text

    def finish(self) -> str:
        """Return the last text to show. Raises Failure transient_cut_body where the reply did not end."""
        if not (self.ended or self._finish_reason):
            raise Failure(f"{TRANSIENT}cut_body", "the stream ended before the reply did")
        return self._show(self._redactor.finish())

    def completion(self) -> Completion:
        """Return the reply as the same server gives it when it is not streamed."""
        finish_reason = self._finish_reason or "stop"
        completion = Completion(self._refusal or "".join(self._shown), finish_reason, self._usage)
        if self._refusal or finish_reason == "refusal":
            completion.reason = "refusal"
        elif not completion.text and finish_reason != "length":
            completion.reason = "null_content"
        else:
            cut_whitespace_loop(completion)
        return completion

    def failed(self, failure: Failure) -> Completion:
        """Return a failed reply: the text shown so far, or the failure's detail where there is none."""
        return Completion("".join(self._shown) or failure.detail, "error", self._usage, failure.reason)

    def _show(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode()  # unpaired surrogates, which servers do send
        if text:
            self._shown.append(text)
        return text
