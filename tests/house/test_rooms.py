"""The rooms of router/: a newcomer sees few, and can name each."""

from tests.house.measure import REPOSITORY

FILES = {"ARCHITECTURE.md", "__init__.py", "__main__.py", "py.typed"}
ROOMS = {
    *(
        "core",
        "contracts",
        "delivery",
        "process",
        "config",
        "shell",
        "serve",
        "sdk",
        "cli",
        "console",
    ),
    *(
        "decide",
        "policies",
        "extensions",
        "budgets",
        "work",
        "bus",
        "mailbox",
        "agents",
        "lake",
        "operate",
        "gateway",
        "providers",
    ),
}
# Tests of one room stand in a folder of its name; these are of all rooms, or of none.
TESTS_OF_ALL = {
    *(
        "bench",
        "clients",
        "conformance",
        "deploy",
        "docs",
        "house",
        "rigs",
        "security",
        "stories",
        "support",
    )
}


def test_router_has_these_twenty_one_rooms_and_no_other() -> None:
    """A new feature is a room inside one of them: `router/ARCHITECTURE.md` draws them. A folder
    without a source file is a cache.
    """
    assert {entry.name for entry in (REPOSITORY / "router").iterdir() if entry.is_file()} == FILES
    assert list_folders("router") == ROOMS


def test_tests_mirror_the_rooms() -> None:
    assert list_folders("tests") - TESTS_OF_ALL <= ROOMS


def test_a_rig_imports_what_tests_share_and_not_the_other_way() -> None:
    helpers = sorted((REPOSITORY / "tests" / "support").glob("*.py"))
    assert [file.name for file in helpers if "tests.rigs" in file.read_text()] == []


def list_folders(place: str) -> set[str]:
    return {
        folder.name
        for folder in (REPOSITORY / place).iterdir()
        if folder.is_dir() and any(folder.rglob("*.py"))
    }
