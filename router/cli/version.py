"""`router version`."""

from __future__ import annotations

from router.cli.options import AsJson
from router.cli.output import print_json


def version(as_json: AsJson = False) -> None:
    """Print the versions of the router and of its main dependencies.

    Example:  router version --json
    """
    import platform
    from importlib.metadata import version as version_of

    from router import __version__

    if as_json:
        print_json({"router": __version__, "python": platform.python_version(), "nats-py": version_of("nats-py")})
    else:
        print(f"router {__version__} (Python {platform.python_version()}, nats-py {version_of('nats-py')})")
