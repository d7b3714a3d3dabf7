"""What `--plan` prints."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.pipeline.planning import PlanRow


def tell_plan(rows: Sequence[PlanRow]) -> None:
    """A line a task and model, and their sum."""
    head = f"{'requests':>9} {'tokens in':>13} {'shared':>13} {'tokens out':>12} {'USD':>10}"
    print(f"\n{'task':<26} {'asked of':<20} {head}")
    for row in rows:
        print(_line(row))
    print(_line(_sum(rows)))
    if any(row.prompt_tokens and not row.exact for row in rows):
        print(
            "Tokens are estimated, four characters each; a model's own tokenizer counts them (tokenizer in --models)."
        )
    print("Shared: the prompt before begins with the same tokens; a server that caches prefixes need not compute them.")
    print(
        "Requests of the judges and tokens out are what the built-in rules' questions and replies would make of them."
    )


def _sum(rows: Sequence[PlanRow]) -> PlanRow:
    whole = PlanRow("sum", "")
    for row in rows:
        whole.requests += row.requests
        whole.prompt_tokens += row.prompt_tokens
        whole.shared_tokens += row.shared_tokens
        whole.completion_tokens += row.completion_tokens
        if row.cost is not None:
            whole.cost = (whole.cost or 0.0) + row.cost
    return whole


def _line(row: PlanRow) -> str:
    price = "-" if row.cost is None else f"{row.cost:.2f}"
    tokens = f"{row.prompt_tokens:>13,} {row.shared_tokens:>13,} {row.completion_tokens:>12,}"
    return f"{row.task:<26} {row.endpoint:<20} {row.requests:>9,} {tokens} {price:>10}"
