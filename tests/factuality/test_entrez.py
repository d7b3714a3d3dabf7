"""PubMed as an endpoint of the asker: search, store and read back; each fault; never more requests than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fdarx_core.factuality.evidence.pubmed import PubMed, PubMedSettings, read_abstracts, search_request
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from fdarx_core.llm import Asker, Baseline, BudgetReached, EndpointStopped, ResponseStore, Unparsable, attempts, ledger
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.records import Request, Response
from fdarx_core.storage import Location
from tests.factuality.entrez_server import EntrezServer, Fault, Paper, over_rate

KEY = "0123abcd"
PAPERS = [
    Paper("101", "Oral ivermectin for scabies.", "Ivermectin cured scabies in 90 % of patients.", 2019),
    Paper("102", "Permethrin cream.", "Topical permethrin cured scabies.", 2016),
    Paper("103", "Old ivermectin.", "Ivermectin and scabies, long ago.", 1999),
    Paper("104", "A letter on ivermectin and scabies.", "", 2020),
]
CLAIM = ClaimQuery("Ivermectin cured scabies.", "How is scabies treated?")


@pytest.fixture
def server() -> Iterator[EntrezServer]:
    with EntrezServer(PAPERS) as running:
        yield running


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key, of which this server does not mind how often it comes; retries follow each other at once."""
    monkeypatch.setenv("NCBI_API_KEY", KEY)
    monkeypatch.setattr(f"{PubMed.__module__}._RATE_WITH_KEY", 100)
    monkeypatch.setattr(attempts, "_FIRST_WAIT_S", 0.01)


def claims(count: int) -> list[Request]:
    return [search_request(ClaimQuery(f"Drug{number} cured scabies.", "")) for number in range(count)]


def asked(
    server: EntrezServer,
    requests: list[Request],
    store: Path | None = None,
    max_requests: int | None = None,
    **settings: float,
) -> list[Response]:
    """The responses of a run; it is closed after it."""

    async def ask() -> list[Response]:
        pubmed = PubMed(PubMedSettings.model_validate({"base_url": server.url, **settings}))
        kept = ResponseStore(Location(store)) if store else None
        asker = Asker({pubmed.name: pubmed}, kept, max_requests=max_requests)
        try:
            return await asker.ask(requests)
        finally:
            await asker.close()
            counters = pubmed.counters
            assert counters.asked == counters.done + counters.abandoned
            assert counters.in_flight == 0

    return asyncio.run(ask())


@pytest.mark.usefixtures("hurried")
def test_the_best_abstracts_of_the_years(server: EntrezServer) -> None:
    [response] = asked(server, [search_request(CLAIM)])
    one, other = read_abstracts(response)
    assert (one.place, one.source, one.year) == ("101", "pubmed", 2019)
    assert (one.title, one.text) == (PAPERS[0].title, PAPERS[0].abstract)
    assert other.place == "102"  # found by a broader search, after the best
    assert '"without_abstract":["104"]' in response.text
    first = server.searches[0].parameters
    assert (first["mindate"], first["maxdate"], first["retmax"]) == ("2014", "2024", "5")
    assert (first["tool"], first["api_key"]) == ("fdarx", KEY)


@pytest.mark.usefixtures("hurried")
def test_k_and_years_are_as_asked(server: EntrezServer) -> None:
    old, one = asked(server, [search_request(CLAIM, years=(1990, 2000)), search_request(CLAIM, k=1)])
    assert [found.place for found in read_abstracts(old)] == ["103"]
    assert [found.place for found in read_abstracts(one)] == ["101"]


@pytest.mark.usefixtures("hurried")
def test_a_narrow_search_that_finds_enough_is_not_broadened(server: EntrezServer) -> None:
    asked(server, [search_request(CLAIM, k=1)])
    assert len(server.calls) == 2


@pytest.mark.usefixtures("hurried")
def test_nothing_found_is_an_answer(server: EntrezServer, tmp_path: Path) -> None:
    unknown = search_request(ClaimQuery("Quuxomab inhibits zorkin.", ""))
    for _ in range(2):
        [response] = asked(server, [unknown], tmp_path)
        assert (response.reason, read_abstracts(response)) == ("", [])
    assert {call.program for call in server.calls} == {"esearch.fcgi"}
    assert len({call.parameters["term"] for call in server.calls}) == len(server.calls)  # the second run asked nothing


@pytest.mark.usefixtures("hurried")
def test_a_claim_without_words_asks_nothing(server: EntrezServer) -> None:
    [response] = asked(server, [search_request(ClaimQuery("12 %.", ""))])
    assert read_abstracts(response) == []
    assert not server.calls


@pytest.mark.usefixtures("hurried")
def test_answers_are_read_back(server: EntrezServer, tmp_path: Path) -> None:
    requests = [search_request(CLAIM), *claims(3)]
    first = asked(server, requests, tmp_path)
    calls = len(server.calls)
    assert [one.text for one in asked(server, requests, tmp_path)] == [one.text for one in first]
    assert len(server.calls) == calls


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429, body=over_rate(), headers={"Retry-After": "0.1"}),
        Fault(status=429, body=over_rate()),
        Fault(body=over_rate()),
        Fault(status=500, body=b"<html>Internal Server Error</html>"),
        Fault(status=502, body=b'{"error":"error forwarding request"}'),
        Fault(body=b'{"esearchresult":{"ERROR":"Search Backend failed: unable to open database"}}'),
        Fault(body=b"<eFetchResult><ERROR>Unable to obtain query #1</ERROR></eFetchResult>"),
        Fault(body=b"<html><body>maintenance</body></html>"),
        Fault(body=b" "),
        Fault(body=b'{"esearchresult":{"idlist":["1 OR 1"]}}'),
        Fault(cut=60),
        Fault(drops=True),
        Fault(latency=3.0),
    ],
    ids=lambda fault: f"{fault.status}{(fault.body or b'')[:18]!r}{fault.cut}{fault.drops}{fault.latency}",
)
@pytest.mark.parametrize("program", ["esearch.fcgi", "efetch.fcgi"])
@pytest.mark.usefixtures("hurried")
def test_what_passes_is_asked_again(server: EntrezServer, fault: Fault, program: str) -> None:
    server.faults = lambda call: fault if call.program == program and call.attempt == 1 else None
    [response] = asked(server, [search_request(CLAIM, k=1)], timeout_s=2.0)
    assert [one.place for one in read_abstracts(response)] == ["101"]
    assert response.attempts == 2
    assert [call.attempt for call in server.calls if call.program == program] == [1, 2]


@pytest.mark.usefixtures("hurried")
def test_articles_that_are_not_given_are_asked_for_again(server: EntrezServer) -> None:
    empty = b"<PubmedArticleSet></PubmedArticleSet>"
    server.faults = lambda call: Fault(body=empty) if not call.searches and call.attempt == 1 else None
    [response] = asked(server, [search_request(CLAIM, k=1)])
    assert [one.place for one in read_abstracts(response)] == ["101"]


@pytest.mark.usefixtures("hurried")
def test_what_does_not_pass_is_told_and_not_kept(server: EntrezServer, tmp_path: Path) -> None:
    server.faults = lambda call: Fault(status=500) if "ivermectin" in call.parameters.get("term", "") else None
    fails, works = asked(server, [search_request(CLAIM), *claims(1)], tmp_path, max_tries=2)
    assert fails.reason == "transient_server_error"
    with pytest.raises(Unparsable, match="server_error"):
        read_abstracts(fails)
    assert read_abstracts(works)
    assert set(ResponseStore(Location(tmp_path)).index()) == {works.key}
    server.faults = lambda call: None
    [again] = asked(server, [search_request(CLAIM)], tmp_path)
    assert read_abstracts(again)


@pytest.mark.usefixtures("hurried")
def test_a_bad_request_is_final(server: EntrezServer, tmp_path: Path) -> None:
    server.faults = lambda call: Fault(status=400, body=b'{"error":"bad term"}')
    [response] = asked(server, [search_request(CLAIM)], tmp_path)
    assert response.reason == "refused_request"
    assert len(server.calls) == 1
    assert len(ResponseStore(Location(tmp_path)).index()) == 1


@pytest.mark.usefixtures("hurried")
def test_a_wrong_key_ends_all_asking_and_is_never_shown(server: EntrezServer) -> None:
    said = f'{{"error":"API key invalid","api-key":"{KEY}","type":"api-key","status":"unknown"}}'.encode()
    server.faults = lambda call: Fault(status=400, body=said)
    with pytest.raises(EndpointStopped, match="NCBI_API_KEY") as stopped:
        asked(server, claims(5))
    assert KEY not in str(stopped.value)
    assert len(server.calls) < 5 * 2


@pytest.mark.usefixtures("hurried")
def test_a_server_that_gives_nothing_ends_all_asking(server: EntrezServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PubMed.__module__}._RATE_WITH_KEY", 10)
    server.faults = lambda call: Fault(status=503)
    with pytest.raises(EndpointStopped, match="server_error"):
        asked(server, claims(40), max_tries=2)
    assert len(server.calls) < 40


@pytest.mark.usefixtures("hurried")
def test_nobody_there(server: EntrezServer) -> None:
    server.stop()
    with pytest.raises(EndpointStopped, match="connection"):
        asked(server, claims(20), max_tries=2)


@pytest.mark.usefixtures("hurried")
def test_no_more_claims_are_searched_than_may_be(server: EntrezServer, tmp_path: Path) -> None:
    with pytest.raises(BudgetReached):
        asked(server, claims(6), tmp_path, max_requests=3)
    assert len(asked(server, claims(6), tmp_path)) == 6


@pytest.mark.usefixtures("hurried")
def test_a_long_query_is_posted(server: EntrezServer) -> None:
    long = " ".join(f"Word{number}opathy and" for number in range(200))
    assert asked(server, [search_request(ClaimQuery(f"{long} scabies.", ""))])[0].reason == ""
    assert {call.method for call in server.searches} == {"GET", "POST"}


@pytest.mark.usefixtures("hurried")
def test_a_run_asks_it_beside_its_models(server: EntrezServer, tmp_path: Path) -> None:
    outside = ClientPool(Baseline({}, rules=""), others=[partial(PubMed, PubMedSettings(base_url=server.url))])
    responses = Location(tmp_path / "responses")

    async def ask() -> list[Response]:
        asker = outside.open(responses)
        try:
            return await asker.ask([search_request(CLAIM)])
        finally:
            await asker.close()

    assert read_abstracts(asyncio.run(ask())[0])
    [row] = ledger(ResponseStore(responses), {})
    assert [row[name] for name in ("task", "endpoint", "requests", "retries", "cost")] == [
        "search_pubmed",
        "pubmed",
        1,
        0,
        None,
    ]


def test_a_key_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCBI_API_KEY", "two words")
    with pytest.raises(ValueError, match="NCBI_API_KEY"):
        PubMed(PubMedSettings())


@pytest.mark.parametrize(("key", "most", "searched"), [("", 3, 4), (KEY, 10, 11)])
def test_entrez_sees_no_more_than_it_allows(
    server: EntrezServer, monkeypatch: pytest.MonkeyPatch, key: str, most: int, searched: int
) -> None:
    """Claims come all at once, and each needs two requests."""
    monkeypatch.setenv("NCBI_API_KEY", key)
    responses = asked(server, [search_request(CLAIM, k=1, years=(1980 + one, 2024)) for one in range(searched)])
    assert all(read_abstracts(one) for one in responses)
    assert len(server.calls) == 2 * searched > 2 * most
    assert server.most_in_a_second() <= most
    assert {call.parameters.get("api_key", "") for call in server.calls} == {key}


def test_asking_stops_while_it_waits_for_its_turn(server: EntrezServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCBI_API_KEY", raising=False)

    async def stopped() -> int:
        pubmed = PubMed(PubMedSettings(base_url=server.url))
        asker = Asker({pubmed.name: pubmed}, grace_s=5)
        asking = asyncio.create_task(asker.ask(claims(30)))
        await asyncio.sleep(0.1)
        await asker.close()
        await asyncio.gather(asking, return_exceptions=True)
        return pubmed.counters.abandoned

    assert asyncio.run(stopped()) >= 25
    assert len(server.calls) <= 4
