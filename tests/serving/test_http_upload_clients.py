"""Uploads of several clients, and labels that are uploaded under the set id of another: none replaces another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from fdarx_core.records.search import DAILYMED_LABEL
from jobs.cli import main as fdarx
from serving.http.access import add_key
from serving.retriever import CorpusStore
from tests.labels.rrf import write_names
from tests.labels.spl import FIELDS, SET_ID, document, product, section, subject, substance
from tests.serving.local_service import LocalBackend, Reply, Service, service

pytestmark = [pytest.mark.usefixtures("files_read_here"), pytest.mark.slow]

QUESTION = "What is the recommended dose of mivorel?"
TRUE, FALSE = "10 mg", "900 mg"
URL = DAILYMED_LABEL.format(SET_ID)
SPOOFED = f"uploads/writer/{SET_ID}"


def label(dose: str, version: int = 7, date: str = "20240131", set_id: str = SET_ID, name: str = "Mivorel") -> bytes:
    text = f"<paragraph>The recommended dose of mivorel is {dose} once a day, taken by mouth with food.</paragraph>"
    warning = f"<paragraph>Do not take more than {dose} of mivorel a day because of severe hiccups.</paragraph>"
    body = section(text, "DOSAGE AND ADMINISTRATION", "34068-7") + section(warning, "WARNINGS", "34071-1")
    fields = FIELDS.replace(SET_ID, set_id).replace('value="7"', f'value="{version}"').replace("20240131", date)
    about = subject(product(name, "mivorel", "1-1", substance("MIVOREL", "U1", "MIVOREL", "U1")))
    return document(body, fields, about).encode()


SPOOF = label(FALSE, 99999, "20991231")


def build(place: str, *files: Path) -> None:
    documents = [part for file in files for part in ("--documents", str(file))]
    assert fdarx(["index", *documents, "--words-only", "--out", place, "--quiet"]) == 0


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "mivorel.xml").write_bytes(label(TRUE))
    build(str(tmp_path / "index"), tmp_path / "mivorel.xml")
    return str(tmp_path / "index")


class Clients:
    """Two keys of a service."""

    def __init__(self, served: Service, keys: dict[str, str]) -> None:
        self.served, self._headers = served, {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}

    def upload(self, name: str, data: bytes, client: str = "writer") -> Reply:
        headers = {"Content-Type": "application/octet-stream", **self._headers[client]}
        return self.served.call("POST", f"/v1/documents?name={name}", data=data, headers=headers)

    def ask(self, question: str = QUESTION, **more: Any) -> Any:
        return self.served.post("/v1/answers", {"question": question, **more}, headers=self._headers["writer"]).json()

    def get(self, path: str) -> Reply:
        return self.served.get(path, headers=self._headers["writer"])

    def post(self, path: str, body: Any) -> Any:
        return self.served.post(path, body, headers=self._headers["writer"]).json()


@pytest.fixture
def clients(place: str, tmp_path: Path) -> Iterator[Clients]:
    places, file = {"own": place}, tmp_path / "keys"
    keys = {name: add_key(file, name, upload=True) for name in ("writer", "other")}
    world = LocalBackend(names_of_corpora=("own",), store=CorpusStore(places, None), places=places)
    with service(world, keys_file=file) as served:
        yield Clients(served, keys)


def test_the_label_answers_beside_an_upload_with_its_set_id_and_a_higher_version(clients: Clients) -> None:
    before = clients.ask()
    assert clients.upload("spoof.xml", SPOOF).json()["added"] == 1
    after = clients.ask()
    assert after["answer"] == before["answer"] and TRUE in after["answer"] and FALSE not in after["answer"]
    assert {one["uploaded_by"] for one in after["citations"]} == {""}
    passages = {(one["set_id"], one["uploaded_by"], one["url"]) for one in after["passages"]}
    assert passages == {(SET_ID, "", URL), (SPOOFED, "writer", "")}
    assert not after["passages"][0]["uploaded_by"]
    for one in after["passages"]:
        assert one["differences"] == [] and one["copied_by"] == []


@pytest.mark.parametrize("filter", [{"drug": "mivorel"}, {"title": "Mivorel"}, {"any_drug": True}])
def test_the_label_is_the_first_that_a_filter_finds(clients: Clients, filter: dict[str, Any]) -> None:
    clients.upload("spoof.xml", SPOOF)
    found = clients.post("/v1/search", {"question": QUESTION, "filter": filter})["passages"]
    assert {one["uploaded_by"] for one in found} == {"", "writer"}
    if "any_drug" not in filter:
        assert not found[0]["uploaded_by"]
    alone = clients.post("/v1/search", {"question": QUESTION, "filter": {"set_id": SET_ID}})["passages"]
    assert {one["uploaded_by"] for one in alone} == {""} and TRUE in alone[0]["text"]


def test_an_uploaded_label_is_answered_from_by_its_own_id_and_marked(clients: Clients) -> None:
    clients.upload("spoof.xml", SPOOF)
    reply = clients.ask(filter={"set_id": SPOOFED})
    assert FALSE in reply["answer"] and {one["uploaded_by"] for one in reply["citations"]} == {"writer"}
    assert {(one["uploaded_by"], one["url"]) for one in reply["passages"]} == {("writer", "")}
    passage = clients.get(f"/v1/passages/{reply['passages'][0]['chunk_id']}").json()
    assert passage["uploaded_by"] == "writer" and passage["chunk"]["source"] == "spoof.xml"
    body = {"model": "own", "messages": [{"role": "user", "content": QUESTION}]}
    details = clients.post("/v1/chat/completions", body)["fdarx"]
    assert {one["uploaded_by"] for one in details["passages"]} == {"", "writer"}


def test_no_lookup_takes_an_uploaded_label_for_another(clients: Clients) -> None:
    sections = [f"/v1/sections?section=34068-7&label={one}" for one in (SET_ID, "Mivorel", "mivorel")]
    paths = ["/v1/names?prefix=m", "/v1/filters", *sections]
    before = [clients.get(path).json() for path in paths]
    clients.upload("spoof.xml", SPOOF)
    clients.upload("brand.xml", label(FALSE, set_id="11111111-0000-4000-8000-000000000009", name="Mivorel Forte"))
    after = [clients.get(path).json() for path in paths]
    assert [one["name"] for one in after[0]["names"]] == ["Mivorel", "Mivorel Forte"]
    assert after[1:] == before[1:]
    own = clients.get(f"/v1/sections?section=34068-7&label={SPOOFED}").json()
    assert (own["uploaded_by"], own["url"], own["version"]) == ("writer", "", 99999)
    compared = clients.get(f"/v1/sections/compared?section=34068-7&first={SET_ID}&second={SPOOFED}").json()
    assert [compared[which]["uploaded_by"] for which in ("first", "second")] == ["", "writer"]


@pytest.mark.parametrize("name", ["Dose", "Recommended", "Hiccups", "What", "Whatz", "Mivorell"])
def test_an_uploaded_label_cannot_take_words_of_questions_for_names_of_its_drug(clients: Clients, name: str) -> None:
    question = f"What is said on {name.lower().removesuffix('z')} and food?"
    before = clients.ask(question)
    about = subject(product(name, name, "1-1", substance(name, "U9", name, "U9")))
    fields = FIELDS.replace(SET_ID, "11111111-0000-4000-8000-000000000009")
    body = section(f"<paragraph>{name} {name} is said on food.</paragraph>", "WARNINGS", "34071-1")
    assert clients.upload("named.xml", document(body, fields, about).encode()).json()["added"] == 1
    after = clients.ask(question)
    texts = {one["text"] for one in before["passages"]}
    assert texts <= {one["text"] for one in after["passages"]}


def test_a_label_of_a_drug_that_no_other_label_is_of_is_found_by_its_name(
    clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_names(tmp_path, {"warfarin": ""})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = section("<paragraph>The dose of warfarin is 5 mg a day.</paragraph>", "DOSAGE AND ADMINISTRATION", "34068-7")
    about = subject(product("Zarvolex", "warfarin", "1-1", substance("WARFARIN", "U2", "WARFARIN", "U2")))
    fields = FIELDS.replace(SET_ID, "11111111-0000-4000-8000-000000000009")
    assert "No label of warfarin" in clients.ask("What is the dose of warfarin?")["answer"]
    clients.upload("warfarin.xml", document(text, fields, about).encode())
    for name in ("warfarin", "Zarvolex"):
        reply = clients.ask(f"What is the dose of {name}?")
        assert "5 mg" in reply["answer"] and {one["uploaded_by"] for one in reply["passages"]} == {"writer"}
        assert clients.get(f"/v1/sections?section=34068-7&label={name}").json()["uploaded_by"] == "writer"


def test_many_uploads_do_not_displace_labels_from_questions_that_name_no_drug(clients: Clients) -> None:
    question = "How much may be taken because of severe hiccups?"
    rows = [{"title": f"Note {n}", "text": f"{question} {question} Take {n} tablets at once."} for n in range(400)]
    assert clients.upload("notes.jsonl", b"\n".join(map(orjson.dumps, rows))).status == 200
    reply = clients.ask(question)
    own = [one for one in reply["passages"] if not one["uploaded_by"]]
    assert reply["passages"][0] in own and len(own) >= 2
    assert TRUE in reply["answer"] and "tablets at once" not in reply["answer"]


def test_two_keys_with_one_file_name_keep_both_files(clients: Clients, place: str) -> None:
    for client, years in (("writer", "seven"), ("other", "nine")):
        clients.upload("samples.txt", f"Reserve samples of quaxelite are kept for {years} years.".encode(), client)
    found = clients.post("/v1/search", {"question": "How long are reserve samples of quaxelite kept?"})["passages"]
    told = {one["uploaded_by"]: one["text"] for one in found if one["uploaded_by"]}
    assert "seven" in told["writer"] and "nine" in told["other"]
    for client, years in (("writer", "seven"), ("other", "nine")):
        assert years in (Path(place) / "uploads" / client / "samples.txt").read_text()


def test_two_keys_with_one_text_or_label_keep_both(clients: Clients) -> None:
    text = b"Reserve samples of quaxelite are kept for seven years."
    for client in ("writer", "other"):
        assert clients.upload(f"{client}.txt", text, client).json()["added"] == 1
        assert clients.upload(f"{client}.xml", SPOOF, client).json()["added"] == 1
    assert clients.upload("writer.txt", b"Something else is blue.").json()["added"] == 1
    found = clients.post("/v1/search", {"question": "How long are reserve samples of quaxelite kept?"})["passages"]
    assert {one["uploaded_by"] for one in found if "seven" in one["text"]} == {"other"}
    assert clients.get("/v1/corpora").json()["corpora"][0]["documents"] == 5


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("samples.txt", b"\xff\xfe\xff"),
        ("samples.txt", b"   \n"),
        ("samples.pdf", b"%PDF-1.7 broken"),
        ("samples.xml", b"<document"),
        ("samples.zip", b"PK\x03\x04 broken"),
    ],
)
def test_a_broken_file_of_the_same_name_changes_nothing(clients: Clients, place: str, name: str, broken: bytes) -> None:
    good = b"Reserve samples of quaxelite are kept for seven years."
    kept = Path(place) / "uploads/writer" / name
    if name.endswith(".txt"):
        clients.upload(name, good)
    version = clients.get("/v1/corpora").json()["corpora"][0]["version"]
    reply = clients.upload(name, broken).json()
    assert reply["added"] == 0 and reply["rejected"] and reply["version"] == version
    assert kept.read_bytes() == good if name.endswith(".txt") else not kept.exists()
    if name.endswith(".txt"):
        assert "seven" in clients.ask("How long are reserve samples of quaxelite kept?")["answer"]


def test_a_file_without_an_earlier_label_drops_it(clients: Clients) -> None:
    clients.upload("one.xml", SPOOF)
    clients.upload("one.xml", label(FALSE, set_id="11111111-0000-4000-8000-000000000009"))
    found = clients.post("/v1/search", {"question": QUESTION})["passages"]
    uploaded = {one["set_id"] for one in found if one["uploaded_by"]}
    assert uploaded == {"uploads/writer/11111111-0000-4000-8000-000000000009"}


def test_an_index_that_is_built_on_keeps_uploads_apart(clients: Clients, place: str, tmp_path: Path) -> None:
    clients.upload("spoof.xml", SPOOF)
    clients.upload("note.txt", b"Reserve samples of quaxelite are kept for seven years.")
    (tmp_path / "mivorel.xml").write_bytes(label("12 mg", 8, "20240601"))
    (tmp_path / "note.txt").write_text("Reserve samples of quaxelite are kept for seven years.")
    build(place, tmp_path / "mivorel.xml", tmp_path / "note.txt", Path(place) / "uploads")
    clients.served.world.store.reload()  # type: ignore[union-attr]
    reply = clients.ask()
    assert "12 mg" in reply["answer"] and FALSE not in reply["answer"]
    assert {(one["version"], one["uploaded_by"]) for one in reply["passages"]} == {(8, ""), (99999, "writer")}
    assert clients.get("/v1/corpora").json()["corpora"][0]["documents"] == 4
    found = clients.post("/v1/search", {"question": "How long are reserve samples of quaxelite kept?"})["passages"]
    assert {one["uploaded_by"] for one in found if "seven" in one["text"]} == {"", "writer"}
    assert clients.upload("note.txt", b"Reserve samples are kept for nine years.").json()["added"] == 1
    assert clients.get("/v1/corpora").json()["corpora"][0]["documents"] == 4
