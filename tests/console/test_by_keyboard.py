"""Writes in a browser by keyboard alone: a login, a policy with a mistake and then without, dead
letters that are chosen and replayed.

One of the two pages without scripts, the other one with them; the matrix turns that round.
"""

import orjson
import pytest

from router.config import Settings
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.policies.store import PolicyStore
from tests.support.browser import CHROMIUM, NO_CHROMIUM, BrowserPage, a_browser
from tests.support.console import Console, store_dead_letter
from tests.support.console_login import ADMIN_KEY
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
POLICY = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}
WRONG = orjson.dumps({**POLICY, "providers": [{"name": "<b>bold", "weight": -1}]}).decode()
RIGHT = orjson.dumps({**POLICY, "providers": [{"name": "second", "weight": 1}]}).decode()
CTRL = 2


@pytest.mark.parametrize("has_scripts", [True, pytest.param(False, marks=pytest.mark.matrix)])
async def test_a_policy_is_mended_and_a_selection_replayed(
    console: Console, settings: Settings, jetstream: JetStream, has_scripts: bool
) -> None:
    store = PolicyStore(DocumentBucket(jetstream, settings.buckets.policies.name))
    await store.put("acme", "fast", orjson.dumps(POLICY), replaces=None, author="me")
    for number in range(3):
        await store_dead_letter(jetstream, settings, b'{"n":%d}' % number)
    async with a_browser() as browser:
        await browser.show(
            console.url + "/login?next=/policies/acme/fast/edit", has_scripts=has_scripts
        )
        await log_in(browser)
        await put_policy(browser, has_scripts)
        assert (await store.get("acme", "fast")).record.document["providers"][0]["name"] == "second"
        await browser.show(console.url + "/dead-letters?show=each", has_scripts=not has_scripts)
        await replay_first_two(browser)
        await until(lambda: has_left(jetstream, settings, 1))
        # the refused policy
        unwanted = [problem for problem in browser.problems if "400" not in problem]
        assert unwanted == []


async def log_in(browser: BrowserPage) -> None:
    await browser.tab_to("[name=password]")
    await browser.type(ADMIN_KEY)
    await browser.press("Enter")
    await until(lambda: is_shown(browser, "h1", "Edit acme/fast"))


async def put_policy(browser: BrowserPage, has_scripts: bool) -> None:
    await write_document(browser, WRONG)
    if has_scripts:  # while it is typed
        await until(lambda: is_shown(browser, "#findings", "providers[0].weight"))
        assert await browser.evaluate(IS_MARKED)
    await press_button(browser, "Put")
    await until(lambda: is_shown(browser, "#findings h2", "Nothing was written"))
    # the document may be read as far as its heading
    await until(lambda: is_shown(browser, "#findings", "providers[0].weight"))
    assert await browser.evaluate(IS_MARKED)
    assert await browser.evaluate("document.querySelector('b') === null")
    await write_document(browser, RIGHT)
    await press_button(browser, "Put")
    await until(lambda: is_shown(browser, ".notice", "acme/fast version 2 is in force"))


async def write_document(browser: BrowserPage, text: str) -> None:
    await browser.tab_to("[name=document]")
    await browser.press("a", CTRL)
    await browser.type(text)


async def replay_first_two(browser: BrowserPage) -> None:
    for _ in range(2):
        await browser.tab_to("[name=sequence]:not(:checked)")
        await browser.press("Space")
    await press_button(browser, "Replay")
    await until(lambda: is_shown(browser, "h1", "replay"))


async def press_button(browser: BrowserPage, name: str) -> None:
    """The button has the focus by Tab, and is pressed by Enter."""
    address = {
        "Put": "form.write button.main",
        "Replay": "button[formaction='/dead-letters/replay']",
    }[name]
    await browser.tab_to(address)
    await browser.press("Enter")


IS_MARKED = (
    "document.querySelector('[name=document][aria-invalid][aria-describedby~=findings]') !== null"
)


async def is_shown(browser: BrowserPage, selector: str, text: str) -> bool:
    found = (
        f"(document.querySelector({orjson.dumps(selector).decode()})?.textContent ?? "
        "'').toLowerCase()"
    )
    return bool(await browser.evaluate(f"{found}.includes({orjson.dumps(text.lower()).decode()})"))


async def has_left(jetstream: JetStream, settings: Settings, count: int) -> bool:
    info = await jetstream.stream(settings.streams.dlq.name)
    return info is not None and int(info["state"]["messages"]) == count
