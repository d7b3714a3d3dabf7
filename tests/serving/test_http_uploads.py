"""Adding documents over HTTP, by the keys that may."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.pipeline.uploading import upload_name
from fdarx_core.retrieval.index import IndexStore
from fdarx_core.specs.serve import ServiceSettings
from serving.http.access import ApiKeys, add_key
from serving.retriever import CorpusStore
from tests.labels.spl import document, product, section, subject, substance
from tests.serving.local_service import LocalBackend, Reply, Service, label_chunks, service

pytestmark = pytest.mark.usefixtures("files_read_here")

QUESTION = "How long are reserve samples of quaxelite kept?"
TEXT = b"# Reserve samples\n\nReserve samples of quaxelite are kept for seven years in a dry room.\n"


@pytest.fixture
def world(place: str) -> LocalBackend:
    places = {"own": place}
    return LocalBackend(names_of_corpora=("own",), store=CorpusStore(places, None), places=places)


@pytest.fixture
def served(world: LocalBackend) -> Iterator[Service]:
    with service(world, upload=True, upload_bytes=100_000) as running:
        yield running


def upload(served: Service, name: str, data: bytes, **headers: str) -> Reply:
    return served.call("POST", f"/v1/documents?name={name}", data=data, headers=headers)


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def test_a_document_is_answered_from_as_soon_as_it_is_added(served: Service, place: str) -> None:
    before = served.ask(QUESTION).json()
    assert "seven years" not in before["answer"]
    reply = upload(served, "samples.md", TEXT).json()
    assert reply.pop("version") > before["index"]["version"]
    assert reply == {"added": 1, "chunks": 1, "rejected": [], "corpus": "own"}
    after = served.ask(QUESTION).json()
    assert "seven years" in after["answer"] and "Reserve samples" in [one["title"] for one in after["passages"]]
    assert served.get("/v1/corpora").json()["corpora"][0]["documents"] == 2
    assert served.ask("How long do stability studies run?").json()["passages"]


def test_a_file_of_the_same_name_takes_the_place_of_the_earlier_one(served: Service) -> None:
    upload(served, "samples.md", TEXT)
    again = upload(served, "samples.md", TEXT).json()
    assert (again["added"], again["chunks"]) == (1, 0)
    changed = upload(served, "samples.md", TEXT.replace(b"seven", b"nine")).json()
    assert changed["version"] > again["version"]
    answer = served.ask(QUESTION).json()["answer"]
    assert "nine years" in answer and "seven" not in answer


def test_a_label_is_added_and_an_older_version_of_it_is_rejected(served: Service) -> None:
    body = section("<paragraph>Mivorel is indicated for the hiccups of adults.</paragraph>", "INDICATIONS AND USAGE")
    about = subject(product("Mivorel", "mivorel", "1-1", substance("MIVOREL", "U1", "MIVOREL", "U1")))
    newer = document(body, subject=about)
    older = newer.replace('<versionNumber value="7"/>', '<versionNumber value="6"/>')
    assert upload(served, "mivorel.xml", newer.encode()).json()["added"] == 1
    reply = upload(served, "mivorel-old.xml", older.encode()).json()
    assert reply["added"] == 0 and [one["reason"] for one in reply["rejected"]] == ["older_version"]
    reply = served.ask("What is Mivorel indicated for?").json()
    assert "hiccups" in reply["answer"] and reply["passages"][0]["version"] == 7


def test_what_cannot_be_read_is_rejected_with_the_reason(served: Service, place: str) -> None:
    members = {"good.txt": b"Quaxelite is blue.", "bad.txt": b"\xff\xfe\xff", "empty.html": b"", "picture.png": b"x"}
    reply = upload(served, "mixed.zip", zipped(members)).json()
    assert reply["added"] == 1
    rejected = {one["name"]: one["reason"] for one in reply["rejected"]}
    assert rejected.keys() == {f"mixed.zip!{name}" for name in ("bad.txt", "empty.html", "picture.png")}
    assert rejected["mixed.zip!empty.html"] == "empty_file" and not any(place in str(one) for one in reply["rejected"])
    nothing = upload(served, "no.pdf", b"no pdf at all").json()
    assert (
        nothing["added"] == 0 and nothing["version"] == reply["version"] and nothing["rejected"][0]["name"] == "no.pdf"
    )
    assert not (Path(place) / "uploads" / "no.pdf").exists()


@pytest.mark.parametrize(
    ("name", "data", "status", "code"),
    [
        ("program.exe", b"x", 422, "unknown_kind"),
        (".txt", b"x", 422, "unknown_kind"),
        ("", b"x", 422, "unknown_kind"),
        ("empty.txt", b"", 422, "empty"),
        ("long.txt", b"x" * 100_001, 413, "too_large"),
    ],
)
def test_wrong_uploads(served: Service, name: str, data: bytes, status: int, code: str) -> None:
    reply = upload(served, name, data)
    assert (reply.status, reply.error["code"]) == (status, code)


def test_a_page_of_another_site_cannot_add_documents(served: Service) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        reply = upload(served, "a.txt", b"Text.", **{"Content-Type": kind})
        assert (reply.status, reply.error["code"]) == (415, "wrong_type")
    asked = served.call("OPTIONS", "/v1/documents?name=a.txt", headers={"Origin": "http://elsewhere.example"})
    assert "Access-Control-Allow-Origin" not in asked.headers


def test_an_unknown_corpus_is_named(served: Service) -> None:
    reply = served.call("POST", "/v1/documents?name=a.txt&corpus=other", data=b"x")
    assert reply.status == 422 and "own" in reply.error["message"]


def test_only_keys_with_the_right_add_documents(world: LocalBackend, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    reader, writer = add_key(file, "reader"), add_key(file, "writer", upload=True)
    with service(world, keys_file=file) as served:
        for key, status in ((reader, 403), (writer, 200), ("wrong", 401)):
            assert upload(served, "samples.md", TEXT, authorization=f"Bearer {key}").status == status
        offers = [
            served.get("/v1/corpora", headers={"authorization": f"Bearer {key}"}).json()["upload"]
            for key in (reader, writer)
        ]
        assert offers[0] == [] and ".pdf" in offers[1]
        assert "/v1/documents" in served.get("/openapi.json").json()["paths"]


def test_without_keys_documents_are_taken_only_with_the_option(world: LocalBackend, tmp_path: Path) -> None:
    with service(world) as served:
        reply = upload(served, "samples.md", TEXT)
        assert reply.status == 403 and "--upload" in reply.error["message"]
        assert served.get("/v1/corpora").json()["upload"] == []
        assert "/v1/documents" not in served.get("/openapi.json").json()["paths"]
    file = tmp_path / "keys"
    add_key(file, "reader")
    assert not ApiKeys.of(ServiceSettings(keys_file=file, upload=True)).uploaders


def test_uploads_at_the_same_time_are_all_there_while_questions_are_answered(served: Service) -> None:
    failed = list[Any]()

    def catching(act: Callable[[], Reply]) -> Callable[[], None]:
        def run() -> None:
            reply = act()
            if reply.status != 200:
                failed.append(reply.body)

        return run

    def note(number: int) -> Callable[[], Reply]:
        return lambda: upload(served, f"note{number}.txt", f"Note {number} on it.".encode())

    threads = [threading.Thread(target=catching(note(number))) for number in range(4)]
    threads += [threading.Thread(target=catching(lambda: served.ask("How long do studies run?"))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert served.get("/v1/corpora").json()["corpora"][0]["documents"] == 5


def test_an_index_that_takes_no_documents_refuses(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path / "index"))
    store.commit([store.write_segment(label_chunks())], chunking={"size": 10_000, "overlap": "wrong"})
    world = LocalBackend(
        names_of_corpora=("own",),
        store=CorpusStore({"own": str(tmp_path / "index")}, None),
        places={"own": str(tmp_path / "none")},
    )
    with service(world, upload=True) as served:
        reply = upload(served, "a.txt", b"Text.")
        assert (reply.status, reply.error["code"]) == (409, "refused") and str(tmp_path) not in str(reply.error)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.PDF", "report.pdf"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Temp\\a b.html", "a b.html"),
        ("bad*na|me?.md", "bad_na_me_.md"),
        ("x" * 300 + ".txt", "x" * 117 + ".txt"),
    ],
)
def test_names_of_files(given: str, kept: str) -> None:
    assert upload_name(given) == kept


@pytest.mark.parametrize("given", ["", "noending", "a.exe", "...txt", "-.txt"])
def test_names_that_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match="name"):
        upload_name(given)
