"""An invented comparison: rows that hang together, of which everything else is worked out."""

from __future__ import annotations

from random import Random
from typing import Any

from fdarx_core.rag.metrics import context_precision, differences, figures, summarize_usage, title_figures
from fdarx_core.rag.tables import ComparisonNames
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, TitleRank
from fdarx_core.report.rag_page import rag_page

WHAT = ComparisonNames(
    strategies={
        "qa_rag": "Question(12) + Hypothetical answer(12)",
        "multiquery": "Multiquery questions(24)",
        "hyde": "HyDE(24)",
        "question": "Only question(24)",
        "hypothetical_answer": "Only hypothetical answer(24)",
        "question_half": "Only question(12)",
        "hypothetical_answer_half": "Only hypothetical answer(12)",
    },
    postprocessors={"rerank": "Reranker", "score": "Scoring agent", "none": "None"},
    main="rerank",
    judge="baseline",
)
_SKILL = {"qa_rag": 0.7, "hypothetical_answer": 0.65, "hyde": 0.6, "question": 0.4}


class SyntheticRag:
    """So many questions, five on a document, answered in every way. `hostile` stands in every text of a reader's."""

    def __init__(self, questions: int = 40, models: tuple[str, ...] = ("small",), hostile: str = "") -> None:
        self._dice, self._hostile = Random(5), hostile
        self.questions = [self._question(number) for number in range(questions)]
        ways = [
            (one, strategy, postprocess, model)
            for one in self.questions
            for strategy in WHAT.strategies
            for postprocess in WHAT.postprocessors
            for model in models
        ]
        self.rows = [self._row(*way) for way in ways]
        self.answers = [answer for answer, _ in self.rows]
        self.scores = [score for _, score in self.rows]
        self.ranks = [
            TitleRank(one.id, one.cluster, retriever, self._dice.choice((0, 1, 1, 2, 9)))
            for one in self.questions
            for retriever in ("bm25", "cosine", "hybrid")
        ]

    def results(self) -> dict[str, Any]:
        return {
            "info": {
                "started": "2026-05-04T08:00:00+00:00",
                "finished": "2026-05-04T08:12:30+00:00",
                "config": {"seed": 3, "index": f"guidelines {self._hostile}", "judge": WHAT.judge},
                "versions": {"fdarx": "0.1.0"},
                "notes": ["No BERTScore: no model was given."],
            },
            "names": WHAT,
            "questions": self.questions,
            "figures": figures(self.scores, seed=3, resamples=200),
            "differences": differences(self.scores, seed=3, resamples=200, flips=200),
            "usages": summarize_usage(self.answers),
            "by_retriever": title_figures(self.ranks, seed=3, resamples=200),
        }

    def page(self, **changed: Any) -> str:
        return rag_page(**{"answers": self.answers, "scores": self.scores, **self.results(), **changed})

    def _question(self, number: int) -> RagQuestion:
        title = f"Guideline {number // 5} on cleaning of equipment {self._hostile}".strip()
        asked = f"How often is line {number} to be cleaned? {self._hostile}".strip()
        return RagQuestion(f"q{number}", asked, [f"Every {number + 2} hours. {self._hostile}".strip()], title, title)

    def _row(self, one: RagQuestion, strategy: str, postprocess: str, model: str) -> tuple[RagAnswer, RagScore]:
        skill = _SKILL.get(strategy, 0.5) - (0.15 if postprocess == "none" else 0)
        ids = [f"c{self._dice.randrange(1000)}-{place}" for place in range(24)]
        useful = [self._dice.random() < skill for _ in range(6)]
        failed = self._dice.random() < 0.02
        answer = RagAnswer(
            one.id, strategy, postprocess, model,
            searches=[one.question, f"Lines are cleaned at times. {self._hostile}"][: 1 + (strategy != "question")],
            candidates=ids, candidate_titles=[one.title] * 24, contexts=ids[:6],
            context_texts=[f"Section {place}. {self._hostile}\n\n" + "Equipment is cleaned between uses. " * 30
                           for place in range(6)],
            answer="" if failed else f"Every {one.id[1:]} hours [1][3]. {self._hostile}", citations=[1, 3],
            outcome="failed" if failed else "answered", reason="http_500: the server is down" if failed else "",
            requests=2, prompt_tokens=9000, completion_tokens=120, cost=0.002,
            rewrite_s=self._dice.random(), search_s=0.01, postprocess_s=self._dice.random(), answer_s=1.5,
        )  # fmt: skip
        score = RagScore(
            one.id, one.cluster, strategy, postprocess, model, useful=useful, statements=2,
            attributed=sum(useful[:2]), context_precision=context_precision(useful),
            context_recall=sum(useful[:2]) / 2, embedding_similarity=0.5 + skill / 4,
            token_f1=0.3 + skill / 4, title_rank=1 if useful[0] else 7,
        )  # fmt: skip
        if self._dice.random() < 0.05:
            score.useful, score.context_precision = [], None
            score.unscored = [f"context_precision: invalid_json: expected value {self._hostile}"]
        return answer, score
