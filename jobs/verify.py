"""Score a verification engine on marked pairs: what it decides, and how often that is right."""

from __future__ import annotations

import sys

from jobs import stop

_CHUNK = 200


def verify(
    *,
    pairs: list[str],
    engine: str = "exact",
    threshold: float = 0.7,
    out: str | None = None,
    seed: int = 0,
    resamples: int = 2000,
    json: bool = False,
    quiet: bool = False,
) -> int:
    """Score a verification engine on pairs of a text and a statement that people have marked.

    Parameters
    ----------
    pairs
        Files of JSON lines, on disk or s3://, each line with text (or evidence, premise), statement (or claim,
        hypothesis) and mark (or label, gold): supported, contradicted, unsupported, or not_supported where only two
        classes are known. A `drug` lets engines recognise the drug's name.
    engine
        `exact`, `rules`, `cross-encoder:MODEL` (a directory or hub name), or `language-model:ID@URL`.
    threshold
        The probability from which a class decides.
    out
        A JSON file for the figures.
    seed
        Fixes the intervals.
    resamples
        Bootstrap resamples over texts.
    json
        Print the figures as JSON instead of a table.
    quiet
        Show no progress.
    """
    # Importing them takes longer than showing the help may take.
    from fdarx_core.evaluation.tables import table_text
    from fdarx_core.evaluation.verifier_scores import engine_table, read_marked_pairs, score_engine
    from fdarx_core.retrieval.models import ModelMissing
    from fdarx_core.storage import Location, StorageError
    from fdarx_core.verify import open_engine
    from fdarx_core.verify import verify as verdicts_of
    from fdarx_core.verify.engine import TextPair
    from jobs.progress import ProgressLine
    from jobs.session import print_json

    if not 0 < threshold <= 1:
        stop(f"--threshold {threshold}: give a probability above 0, at most 1")
    try:
        marked = [pair for file in pairs for pair in read_marked_pairs(Location(file))]
        judge = open_engine(engine)
    except (StorageError, ModelMissing, ValueError) as error:
        stop(str(error))
    verdicts = []
    with ProgressLine({"pairs": "pairs judged"}, quiet=quiet) as progress:
        for start in range(0, len(marked), _CHUNK):
            progress("pairs", start, len(marked))
            texts = [TextPair(one.text, one.statement, one.drug) for one in marked[start : start + _CHUNK]]
            verdicts += verdicts_of(texts, judge, threshold=threshold)
        progress("pairs", len(marked), len(marked))
    figures = score_engine(marked, verdicts, seed=seed, resamples=resamples)
    result = {"engine": judge.name, "threshold": threshold, "figures": [one.to_row() for one in figures]}
    if out:
        import orjson

        Location(out).write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    if json:
        print_json(result)
    else:
        print(table_text(engine_table(judge.name, figures)))
    return 0


if __name__ == "__main__":
    from jobs.cli import main

    sys.exit(main(["verify", *sys.argv[1:]]))
