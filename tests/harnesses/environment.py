"""An environment of its own for the evaluation harnesses inspect and lm-eval, with what scoring replies imports.

Their pins of fsspec do not fit those of the tests' environment. FDARx itself is found through PYTHONPATH.
`python -m tests.harnesses.environment` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

from tests.engine.environment import PROJECT, Unavailable, install_packages, run

CACHE = PROJECT / ".cache" / "harness"
HARNESSES = ["inspect-ai==0.3.285", "lm-eval[api]==0.4.13", "openai>=3,<4"]
SCORING = [
    *("jinja2", "lxml", "nltk", "numpy", "orjson", "pyarrow", "pydantic", "pyyaml", "rapidfuzz"),
    *("rouge-score==0.1.2", "sacrebleu"),
]
"""What `fdarx_core.harnesses.scoring` imports; most of it comes with lm-eval."""


def installed() -> Path:
    """Return the folder of the environment's programs, which is made on the first call (about 730 MB, 20 s).

    Raises Unavailable where it cannot be made.
    """
    programs, ready = CACHE / "env" / "bin", CACHE / "ready"
    wanted = "\n".join([*HARNESSES, *SCORING])
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != wanted:
            ready.unlink(missing_ok=True)
            run([sys.executable, "-m", "venv", "--clear", str(CACHE / "env")])
            install_packages(programs / "python", *HARNESSES, *SCORING)
            ready.write_text(wanted)
    return programs


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no harnesses to test against: {reason}")
