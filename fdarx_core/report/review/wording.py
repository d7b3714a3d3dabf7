"""What annotators are told of each task. The rubrics follow those of the judges: FDARxBench §B.4, §B.8, §B.9."""

from __future__ import annotations

GUIDES: dict[str, str] = {
    "relevance": "Relevant: the reply bears on whether a generic may be approved, how its study is designed, what its "
    "label must say, or how the drug is used safely. Judge the question alone, whatever its answer may be.",
    "category": "Choose the one topic under which a reviewer would look for the answer; None where it is on nothing "
    "that a label tells.",
    "correctness": "Judge by the text shown, not by what you know. Every number, unit, population and condition must "
    "agree. Two passages: each must contribute, neither alone may be enough. Where the answer says that there is no "
    "information, it is correct if the text indeed gives none.",
    "quality": "Whether the answer is right does not count here. Unfit: the question gives its answer away; names a "
    "population, dose or study that the text does not speak of; can't be answered from it; is vague or trivial; or "
    "joins two facts that have nothing to do with each other.",
    "grade": "A: all of the reference that matters clinically is there, in whatever words. B: a number is missing or "
    "wrong, a population or warning is wrong, something is made up, or a main element is left out. C: it declines. "
    "Where the reference says that there is no information, any recommendation is B and declining is C.",
}

SHOWN = "Text that the judge was shown"
SHOWN_BESIDE: dict[str, str] = {"grade": "What the reference rests on (the judge saw the reference alone)"}
"""What the text beside an item is, where it is not what the judge was shown."""
