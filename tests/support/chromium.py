"""A page in a real Chromium: the client's own modules, served from a free port, and what the page
found.
"""

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.node import CLIENT, WITHIN_S

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LOADER = Path(__file__).parent / "browser" / "packages.js"
MODULES = CLIENT / "node_modules"
ENTRY = "beamline-router-client/browser"
TELL_ERRORS = """
const tell = (error) => fetch("/found", {method: "POST", body: JSON.stringify({error: String(error)})});
addEventListener("error", (event) => tell(event.message || event.target.src), true);
addEventListener("unhandledrejection", (event) => tell(event.reason));
"""
OPTIONS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-dev-shm-usage",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-default-apps",
    ),
)


def find_browser() -> str:
    """Skips where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(
            f"none of {', '.join(BROWSERS)} is on this machine: the TypeScript client is "
            "not tested in a browser"
        )
    return browser


def run_page(script: str, query: str) -> dict[str, Any]:
    """What a module of the client's `build` posts to `/found`. Fails with the browser's own words
    when nothing comes.
    """
    browser = find_browser()
    with (
        _server(script) as (port, told),
        tempfile.TemporaryDirectory(prefix="router-page-") as home,
    ):
        log = Path(home) / "browser.log"
        command = (
            browser,
            *OPTIONS,
            f"--user-data-dir={home}/profile",
            "--enable-logging=stderr",
            f"http://127.0.0.1:{port}/?{query}",
        )
        with (
            log.open("wb") as output,
            subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            ) as process,
        ):
            try:
                return told.get(timeout=WITHIN_S)
            except queue.Empty:
                pytest.fail(
                    f"the page found nothing in {WITHIN_S} s: "
                    f"{log.read_text(errors='replace')[-4000:]}"
                )
            finally:
                _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The browser and its own children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _server(script: str) -> "Iterator[tuple[int, queue.Queue[dict[str, Any]]]]":
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    made = {
        "/": ("text/html", _write_page(script)),
        "/packages.js": ("text/javascript", _write_packages()),
    }
    made |= {
        f"/packages/{name}.js": ("text/javascript", _write_package(name, names))
        for name, names in _list_imports().items()
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            file = CLIENT / path.removeprefix("/")
            if path in made:
                self._answer(*made[path])
            elif path.startswith(("/dist/", "/build/")) and file.suffix == ".js" and file.is_file():
                self._answer("text/javascript", file.read_text())
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer("text/plain", "")

        def _answer(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _write_page(script: str) -> str:
    """A page without a bundler: its import map says where each package is."""
    imports = {
        ENTRY: "/dist/browser.js",
        **{name: f"/packages/{name}.js" for name in _list_imports()},
    }
    parts = (
        "<!doctype html>",
        f"<script>{TELL_ERRORS}</script>",
        f'<script type="importmap">{json.dumps({"imports": imports})}</script>',
        f'<script type="module" src="/{script}"></script>',
    )
    return "".join(parts)


def _list_imports() -> dict[str, set[str]]:
    """Which names the client imports of each package."""
    names: dict[str, set[str]] = {}
    for file in (CLIENT / "dist").glob("*.js"):
        for inner, package in re.findall(
            r'import \{([^}]*)\} from "(@nats-io/[^"]+)"', file.read_text()
        ):
            names.setdefault(package, set()).update(
                name.split(" as ")[0].strip() for name in inner.split(",")
            )
    return {name: place for name, place in names.items() if name != "@nats-io/transport-node"}


def _write_package(name: str, names: set[str]) -> str:
    return (
        f'import "/packages.js";\nexport const {{ {", ".join(sorted(names))} }} = '
        f'loadPackage("{name}");\n'
    )


def _write_packages() -> str:
    """Every package that the client needs in a browser, in one file."""
    files, mains, waiting, seen = {}, {}, list(_list_imports()), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        package = json.loads((MODULES / name / "package.json").read_text())
        waiting += package.get("dependencies", {})
        entries = package.get("exports") or {".": package["main"]}
        mains |= {
            (name + place.removeprefix(".")): f"{name}/{_find_file(entry)}"
            for place, entry in entries.items()
        }
        files |= {
            str(file.relative_to(MODULES)): file.read_text()
            for file in (MODULES / name).rglob("*.js")
            if not file.name.endswith(".min.js")
        }
    functions = ",\n".join(
        f"{json.dumps(name)}: function (exports, require, module) {{\n{text}\n}}"
        for name, text in files.items()
    )
    return (
        LOADER.read_text()
        .replace("PACKAGES;", f"{{\n{functions}\n}};")
        .replace("MAINS;", f"{json.dumps(mains)};")
    )


def _find_file(entry: object) -> str:
    """Of an entry with conditions, the one of `require`."""
    if isinstance(entry, dict):
        return _find_file(entry.get("require") or entry.get("default"))
    return str(entry).removeprefix("./")
