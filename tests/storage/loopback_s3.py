"""An S3 server on this machine that holds objects in memory, and fails as it is told: what Swift can't be made to do.

with LoopbackS3() as server:
    server.faults = lambda call: Fault(503, "SlowDown") if call.number == 1 else None
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass
class Call:
    """One request as the server saw it; `number` counts from 1. `source` is what is to be copied, if it has the tag."""

    number: int
    method: str
    key: str
    query: dict[str, list[str]]
    access_key: str
    body: bytes = b""
    source: str = ""
    source_tag: str = ""


@dataclass
class Fault:
    """What is answered instead: an error of this code, or a connection that breaks; `done_first`: the work is done."""

    status: int = 500
    code: str = "InternalError"
    message: str = "told to fail"
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    done_first: bool = False


class LoopbackS3:
    """Buckets are taken for granted. `objects` by "bucket/key"; `uploads` are the parts of those not completed."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.calls: list[Call] = []
        self.faults: Callable[[Call], Fault | None] = lambda call: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> LoopbackS3:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, call: Call) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers."""
        upload = call.query.get("uploadId", [""])[0]
        if call.method == "POST" and "uploads" in call.query:
            name = f"upload-{call.number}"
            self.uploads[name] = {}
            return 200, _xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>"), {}
        if upload and upload not in self.uploads:
            return _error(Fault(404, "NoSuchUpload"))
        if upload and call.method == "PUT":
            self.uploads[upload][int(call.query["partNumber"][0])] = call.body
            return 200, b"", {"ETag": _tag(call.body)}
        if upload and call.method == "DELETE":
            del self.uploads[upload]
            return 204, b"", {}
        if upload:
            parts = self.uploads.pop(upload)
            self.objects[call.key] = b"".join(parts[number] for number in sorted(parts))
            return 200, _xml("CompleteMultipartUploadResult", '<ETag>"x-2"</ETag>'), {}
        return self._plain(call)

    def _plain(self, call: Call) -> tuple[int, bytes, dict[str, str]]:
        if "list-type" in call.query:
            bucket, prefix = call.key.split("/")[0], call.query.get("prefix", [""])[0]
            keys = sorted(name.partition("/")[2] for name in self.objects if name.startswith(f"{bucket}/{prefix}"))
            listed = "".join(f"<Contents><Key>{escape(key)}</Key></Contents>" for key in keys)
            return 200, _xml("ListBucketResult", f"<KeyCount>{len(keys)}</KeyCount>{listed}"), {}
        if call.source:
            found = self.objects.get(call.source)
            if found is None or _tag(found) != call.source_tag:
                return _error(Fault(404, "NoSuchKey") if found is None else Fault(412, "PreconditionFailed"))
            self.objects[call.key] = found
            return 200, _xml("CopyObjectResult", f"<ETag>{_tag(found)}</ETag>"), {}
        if call.method == "PUT":
            self.objects[call.key] = call.body
            return 200, b"", {"ETag": _tag(call.body)}
        if call.method == "DELETE":
            self.objects.pop(call.key, None)
            return 204, b"", {}
        if call.key not in self.objects:
            return _error(Fault(404, "NoSuchKey"))
        data = self.objects[call.key]
        return 200, data, {"ETag": _tag(data)}


def _handler(server: LoopbackS3) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            credential = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
            query = parse_qs(parts.query, keep_blank_values=True)
            key = unquote(parts.path).strip("/")
            source = unquote(self.headers.get("x-amz-copy-source", "")).strip("/")
            source_tag = self.headers.get("x-amz-copy-source-if-match", "")
            call = Call(len(server.calls) + 1, self.command, key, query, credential, body, source, source_tag)
            server.calls.append(call)
            fault = server.faults(call)
            if fault is not None and fault.done_first:
                server.answer(call)
            if fault is not None and fault.drop:
                self.close_connection = True
                self.connection.close()
                return
            status, data, headers = server.answer(call) if fault is None else _error(fault)
            self.send_response_only(status)
            usual = {"Date": self.date_time_string(), "Content-Length": str(len(data))}
            for name, value in {**usual, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _error(fault: Fault) -> tuple[int, bytes, dict[str, str]]:
    inside = f"<Code>{fault.code}</Code><Message>{fault.message}</Message>"
    return fault.status, f"<Error>{inside}</Error>".encode(), fault.headers


def _xml(name: str, inside: str) -> bytes:
    return f'<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inside}</{name}>'.encode()


def _tag(data: bytes) -> str:
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'
