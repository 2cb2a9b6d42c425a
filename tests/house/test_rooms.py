"""The rooms of router/: a newcomer sees few, and can name each."""

from tests.house.measure import REPOSITORY

FILES = {"ARCHITECTURE.md", "__init__.py", "__main__.py", "py.typed"}
ROOMS = {
    *("core", "contracts", "delivery", "routing", "bus", "mailbox", "runtime", "lake"),
    *("services", "operations", "config", "app", "sdk", "cli"),
}


def test_router_has_these_fourteen_rooms_and_no_other() -> None:
    """A new feature is a room inside one of them: `router/ARCHITECTURE.md` draws them. A folder without a source file is a cache."""
    entries = (entry for entry in (REPOSITORY / "router").iterdir() if entry.is_file() or any(entry.rglob("*.py")))
    assert {entry.name for entry in entries} == FILES | ROOMS
