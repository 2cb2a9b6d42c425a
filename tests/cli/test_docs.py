"""`router docs`: each page of the package as HTML whose links lead somewhere, on a port of this
machine or in the terminal.
"""

import asyncio
import http.client
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from router.cli.docs import INDEX, PageLibrary, build_site, open_library, render_page
from router.process.observability.http import serve_application
from tests.docs.site.build import SitePage
from tests.support.cli import COMMAND, call_command, clean_environment


@pytest.fixture(scope="module")
def library() -> PageLibrary:
    found = open_library()
    assert found is not None
    return found


def test_every_link_of_every_page_leads_to_a_page_and_an_anchor(library: PageLibrary) -> None:
    shown = {
        path: SitePage(render_page(path, file.read_text(), library.pages))
        for path, file in library.pages.items()
    }
    links = [
        (path, link) for path, page in shown.items() for link in page.links if "://" not in link
    ]
    assert len(links) > 200
    assert [(path, link) for path, link in links if not leads(shown, library, path, link)] == []


def leads(shown: dict[str, SitePage], library: PageLibrary, path: str, link: str) -> bool:
    to, _, anchor = link.partition("#")
    target = os.path.normpath(Path(path).parent / to) if to else path
    target = target.lstrip("/")
    return target in library.pictures or (
        target in shown and (not anchor or anchor in shown[target].anchors)
    )


def test_a_link_out_of_the_pages_is_plain_text() -> None:
    made = render_page(
        "a/b.md", "# One\n[in](../c.md#x) [out](../../d.md) [far](https://nats.io)\n", {"c.md"}
    )
    assert '<h1 id="one">' in made
    assert '<a href="../c.md#x">in</a> out <a href="https://nats.io">far</a>' in made


async def test_a_browser_gets_the_pages_and_no_other_file(library: PageLibrary) -> None:
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_application(build_site(library), "127.0.0.1", 0, bound.set_result)
    )
    port = await bound
    assert await asyncio.to_thread(get, port, "/") == (307, "")
    status, index = await asyncio.to_thread(get, port, f"/{INDEX}")
    assert (status, "<h1" in index) == (200, True)
    for path in ("/../pyproject.toml", "/%2e%2e/pyproject.toml", "//etc/passwd", "/zensical.toml"):
        assert (await asyncio.to_thread(get, port, path))[0] == 404
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_it_serves_until_a_signal() -> None:
    process = subprocess.Popen(
        [*COMMAND, "docs", "--no-browser"], stdout=subprocess.PIPE, env=clean_environment()
    )
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert ready["event"] == "docs.ready"
    assert (
        get(int(ready["http"].rstrip("/").rpartition(":")[2]), "/reference/policies.md")[0] == 200
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_page_is_printed_and_a_wrong_name_gets_near_ones() -> None:
    shown = call_command("docs", "policies")
    assert (shown.status, shown.out.splitlines()[0]) == (0, "# Policies and the decision")
    refused = call_command("docs", "polices")
    assert (refused.status, refused.out) == (1, "")
    assert "policies" in refused.err
    folder = call_command("docs", "tutorials")
    assert folder.status == 1
    assert "first-decision, first-extension" in folder.err
