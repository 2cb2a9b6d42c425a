"""The program of `s3`: moto's server with what a test of commits needs of S3 besides: whole
requests, a store, errors on demand.

    python -m tests.support.s3_server HOME PORT

* One request at a time: moto looks and then puts, and S3's conditional put is one step.
* Objects are files below HOME/objects before the answer is sent, so a server that was killed comes
  back with them.
* Another key than KEY_ID is refused as S3 does it; moto takes any.
* `POST /-/faults` arms faults (`Fault`): an error after or before a request was done, its death
  there, a condition that is ignored.

The port is written to HOME/port once it listens.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import S3Backend, s3_backends
from werkzeug.serving import make_server

from tests.support.s3 import BUCKET, KEY_ID, REGION, Environ, Fault

WRITES = ("PUT", "POST", "DELETE")

StartResponse = Callable[..., object]


class S3Application:
    """WSGI: moto's S3 behind a lock."""

    def __init__(self, home: Path) -> None:
        self._objects = home / "objects"
        self._objects.mkdir(exist_ok=True)
        self._moto = create_backend_app("s3")
        self._turn = threading.Lock()
        self._faults: list[Fault] = []
        self._backend: S3Backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self._backend.create_bucket(BUCKET, REGION)
        for file in self._objects.iterdir():
            if file.suffix != ".part":
                self._backend.put_object(BUCKET, unquote(file.name), file.read_bytes())

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = _read_body(environ)
        if environ["PATH_INFO"] == "/-/faults":
            self._faults = msgspec.json.decode(body, type=list[Fault])
            return _answer(start_response, "204 No Content", b"")
        if f"Credential={KEY_ID}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return _answer(
                start_response,
                "403 Forbidden",
                _make_error("InvalidAccessKeyId", "This key does not exist."),
            )
        with self._turn:
            return self._serve(environ, body, start_response)

    def _serve(
        self, environ: Environ, body: bytes, start_response: StartResponse
    ) -> Iterable[bytes]:
        what = next((fault.what for fault in self._faults if fault.hits(environ)), None)
        if what == "die_before":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "error_before":
            return _answer(
                start_response,
                "500 Internal Server Error",
                _make_error("InternalError", "We encountered an internal error."),
            )
        if what == "no_condition":
            environ.pop("HTTP_IF_NONE_MATCH", None)
        answered: list[tuple[Any, ...]] = []
        chunks = [*self._moto(environ, lambda *answer: answered.append(answer))]
        if environ["REQUEST_METHOD"] in WRITES:
            self._store(environ)
        if what == "die_after":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "error_after":
            return _answer(
                start_response,
                "500 Internal Server Error",
                _make_error("InternalError", "We encountered an internal error."),
            )
        start_response(*answered[0])
        return chunks

    def _store(self, environ: Environ) -> None:
        bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
        if bucket == BUCKET:
            # without a key: a delete of many
            keys = [key] if key else [unquote(file.name) for file in self._objects.iterdir()]
            for name in keys:
                self._store_object(name)

    def _store_object(self, key: str) -> None:
        there, file = (
            self._backend.buckets[BUCKET].keys.get(key),
            self._objects / quote(key, safe=""),
        )
        if there is None:
            file.unlink(missing_ok=True)
            return
        part = file.with_suffix(".part")
        part.write_bytes(there.value)
        part.rename(file)


def _read_body(environ: Environ) -> bytes:
    """Read the body, and leave it to be read again."""
    source, length = environ["wsgi.input"], environ.get("CONTENT_LENGTH")
    is_chunked = not length and environ.get("wsgi.input_terminated")
    body: bytes = source.read() if is_chunked else source.read(int(length or 0))
    environ["wsgi.input"] = BytesIO(body)
    return body


def _answer(start_response: StartResponse, status: str, body: bytes) -> Iterable[bytes]:
    start_response(
        status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    )
    return [body]


def _make_error(code: str, message: str) -> bytes:
    return (
        '<?xml version="1.0" '
        f'encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    ).encode()


def main(home: Path, port: int) -> None:
    class QuietHandler(MotoRequestHandler):
        def log(self, *_: object) -> None:
            """A line for each request would be most of what a test writes."""

    server = make_server(
        "127.0.0.1", port, S3Application(home), threaded=True, request_handler=QuietHandler
    )
    (home / "port.part").write_text(str(server.port))
    (home / "port.part").rename(home / "port")
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
