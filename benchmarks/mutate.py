"""The parser on damaged files: real labels, mutated at random, each through `parse_document`.

    python -m benchmarks.mutate [--count N] [--seed S] [PATH …]

Two processes. Every file must end as a label or as a refusal with a reason, within 5 s. Exits 1 otherwise.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter

from benchmarks import command_line, read_documents
from benchmarks.mutations import MUTATIONS, damage_archive
from fdarx_core.labels import BadDocument, find_sources, parse_document, read_source
from fdarx_core.records import Reject

LIMIT = 5.0  # seconds a file
HANGING = 60.0  # seconds after which a worker is ended, with its stack printed
PARSED, CRASHED = "parsed", "CRASHED"
_documents: list[bytes] = []


def outcome_of(data: bytes, zipped: bool = False) -> str:
    """Return `PARSED`, the reason of the refusal, or `CRASHED` and the end of the stack."""
    try:
        if zipped:
            return _outcome_of_archive(data)
        parse_document(data)
    except BadDocument as bad:
        return bad.reason
    except Exception:  # this script looks for crashes
        return f"{CRASHED} {' '.join(traceback.format_exc().split()[-25:])}"
    return PARSED


def _outcome_of_archive(data: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "labels.zip")
        path.write_bytes(data)
        found = find_sources([str(path)])
        read = [*found.rejects, *(document for source in found.sources for document in read_source(source))]
    for document in read:
        if isinstance(document, Reject):
            return document.reason
        parse_document(document[1])
    return PARSED


def cases(documents: list[bytes], seed: int, numbers: range) -> Iterator[tuple[str, str, float]]:
    """Yield the mutation, the outcome and the seconds of each numbered case, which depends on seed and number alone."""
    for number in numbers:
        dice = random.Random(f"{seed}:{number}")
        mutation = MUTATIONS[number % len(MUTATIONS)]
        data = mutation(dice.choice(documents), dice)
        faulthandler.dump_traceback_later(HANGING, exit=True)
        start = perf_counter()
        outcome = outcome_of(data, zipped=mutation is damage_archive)
        seconds = perf_counter() - start
        faulthandler.cancel_dump_traceback_later()
        yield mutation.__name__, outcome, seconds


def _start_worker(paths: list[str]) -> None:
    _documents.extend(read_documents(paths))


def _run(seed: int, numbers: range) -> list[tuple[str, str, float]]:
    return list(cases(_documents, seed, numbers))


def main() -> int:
    """Print the outcomes of each mutation."""
    options = command_line(__doc__)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("paths", nargs="*", metavar="PATH")
    given = options.parse_args()
    chunks = [range(start, min(start + 50, given.count)) for start in range(0, given.count, 50)]
    with ProcessPoolExecutor(2, initializer=_start_worker, initargs=(given.paths,)) as pool:
        ended = [case for chunk in pool.map(_run, [given.seed] * len(chunks), chunks) for case in chunk]
    for (name, outcome), count in sorted(Counter((name, outcome) for name, outcome, _ in ended).items()):
        print(f"{name:18} {outcome:24} {count:6}")
    parsed = sum(1 for _, outcome, _ in ended if outcome == PARSED)
    crashes = sum(1 for _, outcome, _ in ended if outcome.startswith(CRASHED))
    longest = max((seconds for *_, seconds in ended), default=0.0)
    refused = len(ended) - parsed - crashes
    print(f"{len(ended)} files: {parsed} parsed, {refused} refused, {crashes} crashes; longest {longest:.2f} s")
    return int(crashes > 0 or longest > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
