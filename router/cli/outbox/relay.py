"""`router outbox relay`: publish what a context's services commit, until a signal stops it."""

from __future__ import annotations

from router.cli.command import CommandSession, command
from router.cli.mailbox import load_relay_settings
from router.cli.output import print_event


@command(load_relay_settings, has_json=False)
async def relay(session: CommandSession) -> int:
    """Publish until SIGTERM or Ctrl-C; then finish the current transaction and end with 0. A second signal ends at once: 130.

    Several may run: one works and the others wait, or they share the work (mailbox.relay.subscriptions). Prints one JSON line,
    outbox.ready, when it works; logs go to standard error.

    Example:  ROUTER_MAILBOX__DSN=postgresql://localhost/sea router outbox relay --context sea
    """
    settings = session.settings
    from router.app.mailbox import RelayService, relay_config

    facts = {"context": settings.mailbox.context, "stream": relay_config(settings).stream}
    return await session.serve(RelayService(settings).run(lambda http: print_event("outbox.ready", http=http, **facts)))
