"""The console as a supervision tree: the connection, the sampler, and the HTTP server, each started
again if it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router.config import Settings
from router.console.application import ConsolePages, build_application, render_now
from router.console.mend import MendRuns, list_routes
from router.console.page_feed import PageFeed
from router.console.slow_pages import BEGIN_AFTER_S
from router.process.observability.http import RESPONSE_TIMEOUT_S, GuardedProtocol, serve_application
from router.process.supervision import Child, Intensity, Supervisor, supervise
from router.shell.access import AccessControl, LoginPages
from router.shell.broker_link import BrokerLink
from router.shell.mend.frame import MendFrame
from router.shell.page_data import Sources
from router.shell.sampler import NowState, Sampler


class PageProtocol(GuardedProtocol):
    """HTTP with the limits of the operators' port, but that the events of the page Now have no end."""

    def _set_deadline(self, seconds: float) -> None:
        super()._set_deadline(seconds)
        if (
            seconds == RESPONSE_TIMEOUT_S
            and self.scope is not None
            and self.scope["path"].endswith("/live")
        ):
            self._clear_deadline()  # `PageFeed` and its response drop a browser that does not read


class ConsoleServer:
    """`run` serves until it is cancelled. Raises Misconfigured.

    `origins`: where each setting that is no default was given. `begin_after_s`: a page that is not
    read by then begins without its data.
    """

    def __init__(
        self,
        settings: Settings,
        origins: Mapping[str, str] | None = None,
        begin_after_s: float = BEGIN_AFTER_S,
    ) -> None:
        self._settings = settings
        self.origins = dict(origins or {})
        self.feed = PageFeed(settings.console.clients)
        self.link = BrokerLink(settings)
        self.sampler = Sampler(settings, self.link, self._on_sample, lambda: self.feed.count)
        self.access = AccessControl(settings)
        sources = Sources(settings, self.link, self.sampler, self.origins)
        pages = ConsolePages(sources, self.access, self.sampler, self.feed, begin_after_s)
        self.runs = MendRuns()
        frame = MendFrame(sources, self.access, self.runs, pages.expire)
        mends = list_routes(frame) if settings.console.writes else ()
        self._application = build_application(settings, pages, LoginPages(self.access), mends)

    async def run(self, on_started: Callable[[int], None] | None = None) -> None:
        """Serve. `on_started` is called with the bound port. Raises Misconfigured if the address
        cannot be bound.
        """

        async def serve() -> None:
            console = self._settings.console
            try:
                await serve_application(
                    self._application, console.host, console.port, on_started, protocol=PageProtocol
                )
            finally:
                self.feed.close()

        workers = (
            Child("broker", self.link.run),
            Child("sampler", self.sampler.run),
            Child("runs", self.runs.run),
        )
        children = (*workers, Child("http", serve))
        await supervise(Supervisor("console", children, intensity=Intensity(5, 30)))

    def _on_sample(self, state: NowState) -> None:
        if self.feed.count:
            self.feed.publish(render_now(state))
