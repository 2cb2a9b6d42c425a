"""`router outbox relay`: publish what a context's services commit, until a signal stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli.mailbox import ContextName, Dsn
from router.cli.options import ConfigFile, NatsUrl
from router.cli.output import print_lines
from router.cli.session import load_mailbox_settings, run_with

if TYPE_CHECKING:
    from router.config import Settings


def relay(context: ContextName = None, dsn: Dsn = None, nats_url: NatsUrl = None, config: ConfigFile = None) -> None:
    """Publish until SIGTERM or Ctrl-C; then finish the current transaction and end with 0. A second signal ends at once: 130.

    Several may run: one works and the others wait, or they share the work (mailbox.relay.subscriptions). Prints one JSON line,
    outbox.ready, when it works; logs go to standard error.

    Example:  ROUTER_MAILBOX__DSN=postgresql://localhost/sea router outbox relay --context sea
    """
    run_with(lambda: load_mailbox_settings(dsn, context, nats_url, config), _relay)


async def _relay(settings: Settings) -> int:
    from router.app.mailbox import RelayService, relay_config
    from router.cli.signals import run_until_signal
    from router.operations.observability import configure

    configure(settings.log.level, settings.log.format)
    facts = {"context": settings.mailbox.context, "stream": relay_config(settings).stream}
    return await run_until_signal(RelayService(settings).run(lambda http: print_lines([{"event": "outbox.ready", "http": http, **facts}])))
