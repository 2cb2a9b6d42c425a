"""The pages of writes, and their addresses: a run and its progress, all runs, and the editor of a
dead letter's payload. For who may write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from router.console.page_feed import answer_with_events
from router.contracts.codec import require_foreign_value
from router.contracts.malformed import Malformed
from router.contracts.payload_display import indent
from router.core.errors import RouterError, describe_causes
from router.extensions import mend as extensions
from router.gateway.keys import mend as keys
from router.operate.dead_letters import NotReplayed, original_of, show
from router.operate.dead_letters import mend as dead_letters
from router.operate.dead_letters.mend import build_options
from router.policies import mend as policies
from router.shell.access import Access
from router.shell.access.control import describe_limit
from router.shell.mend.frame import MendFrame
from router.shell.mend.runs import MendRun
from router.shell.page_data import PageNotFound
from router.shell.pages import PAGES
from router.shell.rendering import render

MAX_EDITED_BYTES = 262_144
MAX_FOLLOWERS = 16
LOOK_EVERY_S = 0.25
ELSEWHERE = "`router dlq replay --edit` opens it in an editor."


class MendPages:
    def __init__(self, frame: MendFrame) -> None:
        self._frame = frame
        self._followers = 0

    async def show_runs(self, request: Request) -> Response:
        access = self._require_writer(request)
        if access is None:
            return _ask_login(request)
        runs = [
            run
            for run in self._frame.runs.list_newest_first()
            if access.tenant in (None, run.tenant)
        ]
        return HTMLResponse(
            render(
                "runs.html",
                PAGES,
                path="/dead-letters",
                title="Replays and discards",
                runs=runs,
                access=access,
            )
        )

    async def show_run(self, request: Request) -> Response:
        """Raises PageNotFound."""
        access = self._require_writer(request)
        if access is None:
            return _ask_login(request)
        run = self._find_run(request, access)
        notice = access.session.take_notice() if access.session is not None else ("", False)
        return HTMLResponse(
            render(
                "run.html",
                PAGES,
                path="/dead-letters",
                title=run.what,
                run=run,
                access=access,
                notice=notice,
            )
        )

    async def follow_run(self, request: Request) -> Response:
        """Its events until it is over. Raises PageNotFound."""
        access = self._require_writer(request)
        if access is None:
            return PlainTextResponse("Log in first.\n", 403)
        run = self._find_run(request, access)
        if self._followers >= MAX_FOLLOWERS:
            return PlainTextResponse(
                "As many pages as allowed are live.\n", 503, {"retry-after": "30"}
            )
        return answer_with_events(self._follow(run, lambda: self._frame.access.may_follow(access)))

    async def edit(self, request: Request) -> Response:
        """The payload as it is, not masked: what is hidden could not be sent again. Raises
        PageNotFound.
        """
        access = self._require_writer(request)
        if access is None:
            return _ask_login(request)
        if access.tenant is not None:  # an edited message may name any tenant
            raise PageNotFound(describe_limit(access.tenant))
        sequence = request.path_params["sequence"]
        if not (
            sequence.isascii() and sequence.isdigit() and 0 < len(sequence) < 19 and int(sequence)
        ):
            raise PageNotFound("A dead letter has a number.")
        text, is_json, cause = await self._read_text(int(sequence))
        values = {"sequence": sequence, "text": text, "is_json": is_json, "cause": cause}
        return HTMLResponse(
            render(
                "edit.html",
                PAGES,
                path="/dead-letters",
                title=f"Edit dead letter {sequence}",
                access=access,
                **values,
            )
        )

    async def _read_text(self, sequence: int) -> tuple[str, bool, str]:
        """The text, whether it is JSON, and why there is none."""
        sources = self._frame.sources
        try:
            jetstream = sources.link.jetstream()
            dead_letter = await show(jetstream, sources.settings.streams.dlq.name, sequence)
            missing = NotReplayed(sequence, "there is no such dead letter")
            original = (
                await original_of(jetstream, dead_letter, build_options(sources))
                if dead_letter is not None
                else missing
            )
        except RouterError as exc:
            return "", False, describe_causes(exc)
        if isinstance(original, NotReplayed):
            return "", False, original.cause
        if len(original.data) > MAX_EDITED_BYTES:
            return "", False, f"It is larger than {MAX_EDITED_BYTES:,} bytes. {ELSEWHERE}"
        try:
            require_foreign_value(original.data, len(original.data))
            return indent(original.data), True, ""
        except Malformed:
            pass
        try:
            return original.data.decode(), False, ""
        except UnicodeDecodeError:
            return "", False, f"It is no text. {ELSEWHERE}"

    async def _follow(
        self, run: MendRun, is_allowed: Callable[[], bool]
    ) -> AsyncIterator[dict[str, str]]:
        self._followers += 1
        try:
            seen = -1
            while is_allowed():
                if run.version != seen:
                    seen = run.version
                    yield {"event": "run", "data": render("_run.html", PAGES, run=run)}
                if run.is_over:
                    yield {"event": "over", "data": ""}
                    return
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            self._followers -= 1

    def _require_writer(self, request: Request) -> Access | None:
        access = self._frame.access.find(request)
        return access if access.can_write else None

    def _find_run(self, request: Request, access: Access) -> MendRun:
        run = self._frame.runs.find(request.path_params["run"])
        if run is None or access.tenant not in (None, run.tenant):
            raise PageNotFound(
                "There is no such run: the console was started again since, or it is too "
                "old. `router audit` has what was done."
            )
        return run


def _ask_login(request: Request) -> Response:
    return RedirectResponse(f"/login?next={request.url.path}", 303)


# -- The addresses of writes, and of their pages.


FORMS = {
    "/dead-letters/replay": dead_letters.replay_chosen,
    "/dead-letters/discard": dead_letters.discard_chosen,
    "/dead-letters/{sequence}/replay": dead_letters.replay_one,
    "/dead-letters/{sequence}/discard": dead_letters.discard_one,
    "/dead-letters/runs/{run}/stop": dead_letters.stop_run,
    "/policies/{tenant}/{policy}/rollback": policies.roll_back,
    "/extensions/enable": extensions.enable,
    "/extensions/disable": extensions.disable,
    "/extensions/{extension}/enable": extensions.enable,
    "/extensions/{extension}/disable": extensions.disable,
    "/keys/revoke": keys.revoke,
}


def list_routes(frame: MendFrame) -> Sequence[Route]:
    """Before those of the pages that read: `/dead-letters/runs` is no number."""
    pages, editor = MendPages(frame), policies.PolicyEditor(frame)
    return (
        Route("/dead-letters/runs", pages.show_runs),
        Route("/dead-letters/runs/{run}", pages.show_run),
        Route("/dead-letters/runs/{run}/live", pages.follow_run),
        Route("/dead-letters/{sequence}/edit", pages.edit),
        Route("/policies/{tenant}/{policy}/edit", editor.edit),
        Route("/policies/{tenant}/{policy}/put", editor.put, methods=["POST"]),
        Route("/policies/{tenant}/{policy}/lint", editor.check, methods=["POST"]),
        Route("/policies/{tenant}/{policy}/try", editor.try_out, methods=["POST"]),
        *(Route(path, frame.bind(do), methods=["POST"]) for path, do in FORMS.items()),
    )
