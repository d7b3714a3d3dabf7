"""An environment of its own for the evaluation harnesses inspect and lm-eval, with what scoring replies imports.

Their pins of fsspec do not fit those of the tests' environment. FDARx itself is found through PYTHONPATH.
`python -m tests.harnesses.environment` makes it beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.environments import Unavailable, own_environment

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
    return own_environment("harness", *HARNESSES, *SCORING)


if __name__ == "__main__":
    try:
        print(installed())
    except Unavailable as reason:
        sys.exit(f"no harnesses to test against: {reason}")
