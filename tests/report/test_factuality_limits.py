"""What limits the figures of a factuality run: checks of its models that cost no request."""

from __future__ import annotations

from dataclasses import replace

from fdarx_core.factuality.scores import ScoringMethod
from fdarx_core.records import CheckedAnswer, Claim, Evidence, FactualityScore, PairVerdict
from fdarx_core.report.answer_viewer import ScoredAnswer
from fdarx_core.report.factuality_page import factuality_page
from fdarx_core.report.figure_limits import FactualityChecks
from tests.report.synthetic_factuality import SyntheticFactuality

METHOD = ScoringMethod(engine="strong", claims="writer")
TEXT = "Take 5 mg once daily."
PASSAGE = Evidence("e", "labels", "X", f"{TEXT} It is white.", "P1", "2", "s", "X")


def answer(model: str = "m", *, supports: float | None = 1.0, reason: str = "", unscored: str = "") -> ScoredAnswer:
    said = CheckedAnswer("a", "q", "How much?", TEXT, model)
    claim = Claim("c", "a", 0, 0, len(TEXT), TEXT, f"X: {TEXT}")
    pair = PairVerdict("a", "c", "e", "evidence", 1, "strong", reason=reason)
    if supports is not None:
        pair = replace(pair, entailment=supports, neutral=1 - supports, contradiction=0.0)
    score = FactualityScore("a", "q", model, "", "", "", "", "answered", unscored=[unscored] * bool(unscored))
    return ScoredAnswer(said, score, [claim], [], [pair], {"e": PASSAGE})


def sentences(*answers: ScoredAnswer, method: ScoringMethod = METHOD) -> list[str]:
    checks = FactualityChecks(method)
    assert list(checks.counted(answers)) == list(answers)
    return checks.sentences()


def test_a_verifier_that_supports_quotations_is_not_told() -> None:
    assert sentences(answer(), answer()) == []


def test_a_quotation_that_the_verifier_does_not_support_is_told() -> None:
    [line] = sentences(answer(), answer(supports=0.0))
    assert line.startswith("The verifier strong did not find 1 of 2 claims supported by a passage in which they stand")
    assert sentences(answer(supports=0.0), method=replace(METHOD, engine="exact")) == []


def test_a_verifier_that_judges_itself_is_told() -> None:
    [line] = sentences(answer("strong"), answer("m"))
    assert line.startswith("The verifier strong judges its own answers")


def test_unusable_replies_are_told_with_their_reason_and_remedy() -> None:
    copied = answer(supports=None, reason="copied_example: it repeats")
    lines = sentences(answer(), copied)
    assert lines[0].startswith("On 1 of 2 pairs the replies of strong repeat an example of its prompt")
    assert "1 of 2 pairs of claim and passage were unusable, most as copied_example" in lines[1]
    assert "Read some of them in responses/ of the run" in lines[1] and "cannot be compared" in lines[1]
    assert sentences(*[answer()] * 19, answer(supports=None, reason="truncated_reply: ...")) == []
    [line] = sentences(answer(), answer(unscored="support: claims_failed: quote_not_found: no part of it"))
    assert line.startswith("The replies of the model writer, which extracts claims, on 1 of 2 answers were unusable")
    assert "most as quote_not_found. Such replies quote what is not in the answer." in line


def test_the_page_tells_it_on_top() -> None:
    made = SyntheticFactuality(questions=6)
    results = made.results()
    weak = iter([answer("strong", supports=0.0)])
    page = factuality_page(**{**results, "method": METHOD, "answers": weak})
    assert page.count("did not find 1 of 1 claims supported") == 1 and "judges its own answers" in page
    assert page.index("What limits these figures") < page.index('id="summary"')
    assert "What limits these figures" not in factuality_page(**made.results())
