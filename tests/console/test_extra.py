"""The console's tests are skipped without its extra, so this one fails then: `make` installs it."""

from importlib.util import find_spec


def test_the_extra_is_installed() -> None:
    missing = [
        name
        for name in ("jinja2", "sse_starlette", "argon2", "itsdangerous")
        if find_spec(name) is None
    ]
    assert not missing, "THE CONSOLE WAS NOT TESTED: pip install -c constraints.txt -e '.[console]'"
