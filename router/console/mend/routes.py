"""The addresses of writes, and of their pages."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import Route

from router.console.mend.pages import MendPages
from router.extensions import mend as extensions
from router.operate.dead_letters import mend as dead_letters
from router.policies import mend as policies
from router.shell.mend.frame import MendFrame

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
