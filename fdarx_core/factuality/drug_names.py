"""Finds the drugs that an answer is about, by the names of labels, and by RxNav's ingredients of other names."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from fdarx_core.labels.drugs import Drug, DrugNames, drug_of
from fdarx_core.llm.response_store import ResponseStore
from fdarx_core.records import CheckedAnswer, Label, Passage, Product, Response, content_id

_SALTS = (
    r"(?:sodium|potassium|calcium|magnesium|hydrochloride|hcl|tromethamine|maleate|besylate|sulfate|acetate|phosphate|"
    r"mesylate|tartrate|bitartrate|succinate|oxalate|citrate|fumarate|anhydrous|(?:mono|di|tri|hemi)hydrate|"
    r"propylene glycol solvate|tablets?|capsules?|injection|solution|suspension|gel|patch|usp|er|xr|dr|delayed|"
    r"extended|release|oral|topical|ophthalmic|chewable)"
)
_SALT = re.compile(rf"\b(?:{_SALTS}|and|for)\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def names_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds the names, without salt and dosage form, and each of their long words, ignoring case.

    Several in a row are one match, with the salts and dosage forms after them. It matches nothing if there are none.
    """
    bare = [without_salts(name) for name in names]
    parts = {one.lower() for one in (*names, *bare, *re.findall(r"[A-Za-z]{5,}", " ".join(bare))) if len(one) > 3}
    several = "|".join(re.escape(one) for one in sorted(parts, key=len, reverse=True))
    further = rf"(?:[\s,/-]+(?:(?:and|with|plus)\s+)?(?:{several}|{_SALTS})(?!\w))*"
    return re.compile(rf"(?<!\w)(?:{several})(?!\w){further}", re.IGNORECASE) if several else re.compile(r"(?!)")


def without_salts(name: str) -> str:
    """Return a drug name without salt and dosage form: "Naproxen Sodium Tablets" gives "Naproxen"."""
    return " ".join(_SALT.sub(" ", name).split()).strip(" ,/-")


class DrugNameIndex:
    """The drugs of all labels, and the labels of each.

    Args:
        labels: labels, each with its passages, which are read once.
        synonyms: ingredients' names (RxNorm's, say) for names that no label has.
    """

    def __init__(
        self, labels: Iterable[tuple[Label, Sequence[Passage]]], synonyms: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._labels: dict[Drug, list[str]] = defaultdict(list)
        self._set_ids: set[str] = set()
        drugs = ((name, Drug.of((one, "") for one in others)) for name, others in (synonyms or {}).items())
        self._names = DrugNames(self._kept(labels), drugs)

    def _kept(self, labels: Iterable[tuple[Label, Sequence[Passage]]]) -> Iterator[tuple[list[Product], Iterable[str]]]:
        for label, passages in labels:
            set_id = sys.intern(label.set_id)
            self._set_ids.add(set_id)
            for drug in {drug_of(*label.products), *map(drug_of, label.products)}:
                self._labels[drug].append(set_id)
            yield label.products, (passage.text for passage in passages)

    def of(self, answer: CheckedAnswer) -> list[list[str]]:
        """Return the drugs that an answer is about, each as the set ids of its labels.

        That of its own label, else its drug by name, else those named in the question, else in the answer.
        """
        if answer.set_id in self._set_ids:
            return [[answer.set_id]]
        if answer.drug and (found := self.named(answer.drug)):
            return [found]
        for text in (answer.question, answer.answer):
            if drugs := dict.fromkeys(drug for mention in self._names.find(text) for drug in mention.drugs):
                return [self._labels[drug] for drug in drugs if drug in self._labels]
        return []

    def named(self, name: str) -> list[str]:
        """Return the labels of the drugs that a name has."""
        drugs = dict.fromkeys(drug for mention in self._names.find(name) for drug in mention.drugs)
        return list(dict.fromkeys(set_id for drug in drugs for set_id in self._labels.get(drug, ())))

    def names_in(self, text: str) -> list[str]:
        """Return the names of drugs in a text, as it has them."""
        return [mention.text for mention in self._names.find(text)]

    def substances_in(self, text: str) -> list[str]:
        """Return the active moieties of the drugs that a text names, in lower case."""
        return list(dict.fromkeys(one for mention in self._names.find(text) for one in mention.moieties))


ADDRESS = "https://rxnav.nlm.nih.gov"
TASK = "rxnav"
RATE = 5.0
"""Requests a second; RxNav allows 20."""
MOST_NAMES = 500

_CAPITALISED = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]{3,}(?:-[A-Z]?[a-z]+)?\b")


def unknown_names(answers: Iterable[CheckedAnswer], drugs: DrugNameIndex) -> list[str]:
    """Return possible drug names that no label has: the drugs of answers, and capitalized words of questions.

    At most `MOST_NAMES` are returned, the most frequent first.
    """
    named = (name for one in answers for name in {one.drug.strip(), *_CAPITALISED.findall(one.question)})
    counts = Counter(name for name in named if name and not drugs.named(name))
    return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_NAMES]


def ingredients_of(
    names: Iterable[str], store: ResponseStore, address: str = ADDRESS, *, rate: float = RATE, timeout_s: float = 10.0
) -> tuple[dict[str, list[str]], str]:
    """Ask RxNorm for the ingredients of the names, one by one; stored answers are read back.

    Returns the ingredients by name, of those names alone that RxNorm knows, and a notice for the run, in a line. Where
    RxNorm can't be reached, what was answered stands and the notice says so; nothing is raised for it. Raises
    `StorageError` where answers can't be kept.
    """
    wanted, new, session = list(names), list[Response](), _session()
    found: dict[str, list[str]] = {}
    trouble = ""

    def get(path: str) -> Any:
        url = f"{address}/REST/{path}"
        key = content_id(TASK, url)
        kept = store.get([key]).get(key)
        if kept is not None:
            return json.loads(kept.text)
        time.sleep(1 / rate)
        reply = session.get(url, timeout=timeout_s)
        if reply.status_code != 404:
            reply.raise_for_status()
        data = reply.json() if reply.ok else {}
        new.append(Response(key, TASK, 1, TASK, json.dumps(data)))
        return data

    try:
        for name in wanted:
            ids = [one for one in _values(get(f"rxcui.json?name={quote(name)}&search=2"), "rxnormId") if one.isdigit()]
            if ids and (ingredients := _values(get(f"rxcui/{ids[0]}/related.json?tty=IN"), "name")):
                found[name] = list(dict.fromkeys(ingredients))
    except requests.RequestException as error:
        reason = " ".join(str(error).split())[:200]
        trouble = f"; {address} gives no more ({reason}), so drugs by other names stay unknown"
    finally:
        store.put(new)
    return found, f"RxNav: {len(found)} of {len(wanted)} names are drugs of RxNorm{trouble}"


def _session() -> requests.Session:
    """Return a session that tries again where the server is busy or fails, and heeds its Retry-After."""
    session = requests.Session()
    session.headers["User-Agent"] = "fdarx (safety checks of drug answers)"
    retries = Retry(2, status_forcelist=(429, 500, 502, 503, 504), backoff_factor=0.5, raise_on_status=False)
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retries))
    return session


def _values(reply: Any, key: str) -> list[str]:
    """Return the strings that a reply has under a key, at any depth, alone or in a list."""
    if isinstance(reply, list):
        return [one for inner in reply for one in _values(inner, key)]
    if not isinstance(reply, dict):
        return []
    own = reply.get(key)
    told = [one for one in (own if isinstance(own, list) else [own]) if isinstance(one, str)]
    return told + [one for inner in reply.values() for one in _values(inner, key)]
