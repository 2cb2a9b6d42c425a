"""`router version`."""

from __future__ import annotations

from router.cli.command import CommandSession, command, skip_settings


@command(skip_settings)
def version(session: CommandSession) -> None:
    """Print the versions of the router and of its main dependencies.

    Example:  router version --json
    """
    import platform
    from importlib.metadata import version as read_version

    from router import __version__

    versions = {"router": __version__, "python": platform.python_version(), "nats-py": read_version("nats-py")}
    session.emit_one(versions, f"router {__version__} (Python {versions['python']}, nats-py {versions['nats-py']})")
