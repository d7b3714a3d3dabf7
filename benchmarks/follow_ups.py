"""How often a follow-up question takes over the topic and the drug of the conversation where it should.

    python -m benchmarks.follow_ups [--part check] [--show] [--learn]

The rows are those of `benchmarks/marked/follow_ups.jsonl`. `--learn` prints the weights of
`fdarx_core/baseline/carried_topics.py` that a logistic regression learns from the tuning part, which is `tune`; `check`
is read when the weights and rules are finished. Exits 1 where less than 0.7 of the decisions are right.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from benchmarks import json_lines, run
from fdarx_core.baseline.carried_topics import topic_features
from fdarx_core.baseline.follow_ups import follow_up

_MARKED = Path(__file__).parent / "marked" / "follow_ups.jsonl"
_PENALTY = 1.0
"""The weight of the squares of the weights (of features with variance 1) beside the log loss of a row."""
_STEPS = 12
_LEAST_RIGHT = 0.7


def mentions(text: str, names: dict[str, str]) -> list[dict[str, Any]]:
    """Return the places of a text that name drugs, as the slots of the task have them."""
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    found = re.finditer(rf"\b(?:{longest_first})\b", text)
    return [{"text": one[0], "start": one.start(), "end": one.end(), "drug": names[one[0]]} for one in found]


def slots(row: dict[str, Any]) -> dict[str, Any]:
    """Return the slots of the task `standalone_question` for a row."""
    names = row["names"]
    history = [
        {"question": asked, "answer": told, "names": mentions(asked, names), "answer_names": mentions(told, names)}
        for asked, told in row["history"]
    ]
    return {"history": history, "question": row["question"], "names": mentions(row["question"], names)}


def features(row: dict[str, Any]) -> dict[str, float]:
    """Return the features of the question of a row after the last one of its history."""
    question, before = (
        re.sub("|".join(rf"\b{re.escape(name)}\b" for name in row["names"]), " ", text)
        for text in (row["question"], row["history"][-1][0])
    )
    return topic_features(question, before, names_drug=bool(mentions(row["question"], row["names"])))


def learned_weights(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the weights of a ridge logistic regression, by Newton's method."""
    found = [features(row) for row in rows]
    values = np.array([list(one.values()) for one in found])
    carried = np.array([float(row["carry"]) for row in rows])
    scales: npt.NDArray[np.float64] = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    penalty = _PENALTY * np.diag([float(name != "constant") for name in found[0]])
    scaled, weights = values / scales, np.zeros(len(scales))
    for _ in range(_STEPS):
        odds = 1 / (1 + np.exp(-scaled @ weights))
        slope = scaled.T @ (odds - carried) + penalty @ weights
        weights -= np.linalg.solve(scaled.T @ (scaled * (odds * (1 - odds))[:, None]) + penalty, slope)
    return dict(zip(found[0], (weights / scales).tolist(), strict=True))


def main(*, part: Literal["tune", "check"] = "tune", show: bool = False, learn: bool = False) -> int:
    """Print the share of right decisions on topics and drugs, and with `--show` what is wrong."""
    rows = json_lines(_MARKED)
    if learn:
        for name, weight in learned_weights([row for row in rows if row["part"] == "tune"]).items():
            print(f'    "{name}": {weight:.2f},')
        return 0
    rows = [row for row in rows if row["part"] == part]
    topics = drugs = 0
    for row in rows:
        found = follow_up(slots(row))
        named = sorted({one["drug"] for one in mentions(found.text, row["names"])})
        topics += found.carried == row["carry"]
        drugs += named == row["drugs"]
        if show and (found.carried != row["carry"] or named != row["drugs"]):
            print(f"{row['id']} {row['history'][-1][0]} | {row['question']}\n  is      {found.text}")
            print(f"  should  {row['standalone']}")
    print(f"{part}, {len(rows)} follow-ups: topic {topics / len(rows):.3f}, drugs {drugs / len(rows):.3f}")
    return int(topics < _LEAST_RIGHT * len(rows))


if __name__ == "__main__":
    run(main)
