"""What programs and operators see is what the kept file says; code that moved is the same code."""

import subprocess
import sys
from pathlib import Path

from tests.house.fingerprint import format_sections, list_differences, read_sections
from tests.house.measure import REPOSITORY
from tests.house.moved_code import list_definitions

BEFORE = {"settings": ["nats.url = here", "topology = create"], "schemas/decide.json": ["{", "}"]}
CODE = '''"""Settles, as `router.delivery.settle` says."""
from router.delivery.settle import Settler

LOG = "router.delivery.settle"


def start(settler: Settler) -> str:
    """See `delivery/settle`."""
    from router.core import clock

    return f"{clock.now()} router.delivery.settle"
'''


def test_what_programs_and_operators_see_is_unchanged() -> None:
    """A change that is meant: `python -m tests.house.fingerprint --write`."""
    command = (sys.executable, "-m", "tests.house.fingerprint")  # apart: it runs commands
    compared = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert compared.returncode == 0, compared.stdout + compared.stderr


def test_every_public_name_is_there() -> None:
    kept = read_sections((REPOSITORY / "tests" / "house" / "fingerprint.txt").read_text())
    named = kept["public names"].lines + kept["modules in pages"].lines
    assert [line for line in named if "missing" in line.split()] == []


def test_a_line_that_differs_is_named() -> None:
    now = BEFORE | {"settings": ["nats.url = there", "topology = create"]}
    differences = list(list_differences(read_sections(format_sections(BEFORE)), now))
    assert differences == ["[settings] differs:", "  -nats.url = here", "  +nats.url = there"]


def test_a_large_section_is_kept_as_a_digest_and_its_lines_are_in_a_full_file() -> None:
    now = BEFORE | {"schemas/decide.json": ["[", "}"]}
    [told] = list_differences(read_sections(format_sections(BEFORE)), now)
    assert told.startswith("[schemas/decide.json] differs: 2 lines before, 2 now.")
    assert list(list_differences(read_sections(format_sections(BEFORE, is_full=True)), now))[
        1:
    ] == ["  -{", "  +["]


def test_a_section_that_is_new_or_gone_is_named() -> None:
    differences = list(
        list_differences(
            read_sections(format_sections(BEFORE)), {"settings": BEFORE["settings"], "tree": []}
        )
    )
    assert differences == ["[schemas/decide.json] is gone", "[tree] is new"]


def test_code_that_moved_is_the_same_and_code_that_changed_is_not(tmp_path: Path) -> None:
    before = write_tree(tmp_path / "before", "settling", CODE)
    moved = write_tree(
        tmp_path / "moved",
        "consume",
        CODE.replace("router.delivery.settle", "router.delivery.consume.settle"),
    )
    changed = write_tree(
        tmp_path / "changed", "settling", CODE.replace("clock.now()", "clock.steady()")
    )
    assert list_definitions(before) == list_definitions(moved)
    assert list_definitions(before)["functions"] != list_definitions(changed)["functions"]
    assert [line.split(maxsplit=1)[1] for line in list_definitions(before)["statements"]] == [
        "LOG = 'router.*'"
    ]


def write_tree(tree: Path, name: str, code: str) -> Path:
    (tree / "router").mkdir(parents=True)
    (tree / "router" / f"{name}.py").write_text(code)
    return tree
