"""What `fdarx build --plan` prints."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.pipeline.planning import PlanRow


def tell_plan(rows: Sequence[PlanRow]) -> None:
    """A line a task and model, and their sum."""
    print(f"\n{'task':<26} {'asked of':<20} {'requests':>9} {'tokens in':>13} {'tokens out':>12} {'USD':>10}")
    for row in rows:
        print(_line(row.task, row.endpoint, row.requests, row.prompt_tokens, row.completion_tokens, row.cost))
    priced = [row.cost for row in rows if row.cost is not None]
    requests = sum(row.requests for row in rows)
    tokens_in, tokens_out = sum(row.prompt_tokens for row in rows), sum(row.completion_tokens for row in rows)
    print(_line("sum", "", requests, tokens_in, tokens_out, sum(priced) if priced else None))
    if any(row.prompt_tokens and not row.exact for row in rows):
        print(
            "Tokens are estimated, four characters each; a model's own tokenizer counts them (tokenizer in --models)."
        )
    print(
        "Requests of the judges and tokens out are what the built-in rules' questions and replies would make of them."
    )


def _line(task: str, endpoint: str, requests: int, tokens_in: int, tokens_out: int, cost: float | None) -> str:
    price = "-" if cost is None else f"{cost:.2f}"
    return f"{task:<26} {endpoint:<20} {requests:>9,} {tokens_in:>13,} {tokens_out:>12,} {price:>10}"
