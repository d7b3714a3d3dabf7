"""Options of jobs from the environment, as FDARX_JOB_OPTION.

A misspelt name must not be ignored in silence: a variable of the job that runs is an error if the job has no such
option, as on the command line, and any other variable that nothing reads is a warning.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from cyclopts import App
from cyclopts.argument import ArgumentCollection
from cyclopts.config import Env

from jobs import stop

PREFIX = "FDARX_"
_READ_ELSEWHERE = frozenset({"FDARX_DATA", "FDARX_KILLS", "FDARX_REQUIRE_ENGINE", "FDARX_VERIFIER"})
"""Variables of FDARx that are no options of jobs: of its tests and benchmarks, and the directory of the verifier."""
_OF_OTHERS = re.compile(
    r"_(?:KEY|TOKEN|SECRET|PASSWORD)$|^FDARX_KEY_"
    r"|_SERVICE_HOST$|_SERVICE_PORT(?:_\w+)?$|_PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?$"
)
"""Names of keys, which models files choose, and those that Kubernetes sets for a service whose name begins so."""


@dataclass(frozen=True)
class Environment:
    """Reads the options of a job from the environment; cyclopts calls it with the job and its options.

    Attributes:
        jobs: the names of all jobs, such as "build" and "review sample".
    """

    jobs: Collection[str]

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in the options that the environment has. Ends the program with exit code 2 for a misspelt one."""
        job = " ".join(commands)
        if job in self.jobs:
            self._check(job, arguments)
            Env(_prefix(job), command=False)(app, commands, arguments)

    def _check(self, job: str, arguments: ArgumentCollection) -> None:
        known = dict.fromkeys(f"{_prefix(job)}{_variable(name)}" for one in arguments for name in _options(one.names))
        for name in sorted(os.environ):
            if not name.startswith(PREFIX) or name in known or name in _READ_ELSEWHERE or _OF_OTHERS.search(name):
                continue
            owner = max((one for one in self.jobs if name.startswith(_prefix(one))), key=len, default="")
            if owner == job:
                stop(f"{name}: `fdarx {job}` has no such option{_nearest(name, known)}; see `fdarx {job} --help`")
            if not owner:
                print(f"warning: {name} is ignored, no job reads it{_nearest(name, known)}", file=sys.stderr)


def _prefix(job: str) -> str:
    return f"{PREFIX}{_variable(job)}_"


def _variable(name: str) -> str:
    """Return a name as it is written in variables: "evaluate-rag" is EVALUATE_RAG."""
    return re.sub(r"\W", "_", name.lstrip("-")).upper()


def _options(names: Collection[str]) -> Iterator[str]:
    return (name for name in names if name.startswith("--"))


def _nearest(name: str, known: Collection[str]) -> str:
    """Return the question after the name that is most alike; the prefix, which all have, does not count."""
    close = get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], n=1)
    return f"; did you mean {PREFIX}{close[0]}?" if close else ""
