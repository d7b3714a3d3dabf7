"""Why something was not had: for good, for now, or for the rest of the job."""

from __future__ import annotations


class Refused(Exception):
    """One thing can't be had: `reason` is a fixed name to count by, `detail` says what was found."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail
        self.unwelcome = False
        """The server turned the client away, which says something of its next requests too."""


class Trouble(Refused):
    """What may pass: it is tried again, `tries` times in all.

    `wait_s` are the seconds that the server asked for, None where it did not; `busy` says that it is overloaded, so
    that all requests wait. With `progress` the try brought enough to count as none.
    """

    def __init__(
        self, reason: str, detail: str, *, tries: int = 5, wait_s: float | None = None, busy: bool = False
    ) -> None:
        super().__init__(reason, detail)
        self.tries, self.wait_s, self.busy = tries, wait_s, busy
        self.progress = False


class Stopped(Exception):
    """Nothing more is asked of the server. The message is one line: why, and what to do."""


def given_up(trouble: Trouble, tries: int) -> Refused:
    """What trouble comes to after its last try."""
    refused = Refused(trouble.reason, f"{trouble.detail} (tried {tries} times)")
    refused.unwelcome = True
    return refused
