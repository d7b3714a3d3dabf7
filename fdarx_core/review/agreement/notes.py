"""What must be said below the tables of agreement."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fdarx_core.evaluation.statistics.bootstrap import FEW_LABELS
from fdarx_core.review.agreement.figures import AgreementFigure
from fdarx_core.review.agreement.measuring import Agreement, Tally


def notes(found: Agreement, figures: Sequence[AgreementFigure]) -> list[str]:
    """Of a table of these figures: what its intervals rest on, and what is in none of them."""
    tasks = {one.task for one in figures}
    tallies = [one for one in found.tallies if one.task in tasks]
    drawn = {one.item.fraction for one in found.voted if one.item.task in tasks}
    return [
        *_about_intervals(figures),
        *_about_weights(drawn, found.weighted),
        *_about_items(tallies),
        *_about_votes(found),
    ]


def _about_intervals(figures: Sequence[AgreementFigure]) -> list[str]:
    labels = max((one.labels for one in figures), default=0)
    few = " So few labels make them too narrow." if labels < FEW_LABELS else ""
    bounds = f"Intervals: 95 %, bootstrap over labels (up to {labels:,}).{few}"
    several = any(one.metric == "macro_f1" for one in figures)
    return [
        bounds if labels > 1 else "No intervals: they need items on two labels at least.",
        *(["No interval where all resamples are alike, as where nobody differs."] if labels > 1 else []),
        *(["F1 of several equal values is the macro F1."] if several else []),
    ]


def _about_weights(drawn: Collection[float], weighted: bool) -> list[str]:
    """Strata are drawn at different rates, so that items of a rare one count for more in a sample than in the run."""
    if len(drawn) < 2:
        return []
    rates = f"of strata, 1 in {1 / min(drawn):,.0f} to 1 in {1 / max(drawn):,.0f} items were drawn"
    if weighted:
        return [f"Figures of the whole run: each item counts for those that it was drawn from ({rates})."]
    return [f"Figures of the sample: each item counts once ({rates}; with --weighted they are of the whole run)."]


def _about_items(tallies: Sequence[Tally]) -> list[str]:
    ties, undecided = sum(len(one.ties) for one in tallies), sum(one.undecided for one in tallies)
    notes = []
    if ties:
        notes.append(f"Items whose votes tie, in no consensus: {ties:,}.")
    if undecided:
        notes.append(f"Items on which the judge reached no decision, in none of its figures: {undecided:,}.")
    return notes


def _about_votes(found: Agreement) -> list[str]:
    if not found.informed:
        return []
    what = "left out" if found.blind else "counted"
    return [f"Votes of the whole review given with the judge's decision in view, {what}: {found.informed:,}."]
