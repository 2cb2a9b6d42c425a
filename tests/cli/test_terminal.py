"""Nothing that comes from outside steers a terminal: on no way out of a command, and not by a log
for people either.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.process.observability import logs
from router.shell import exit_codes
from router.shell.output import (
    build_grid,
    format_json,
    print_json,
    print_json_lines,
    print_table,
    printable,
)
from tests.support.observability import capture_log

STEERS = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\u200b\x00\r\x7f"


def is_still(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


def test_an_error_is_told_without_what_steers(capsys: pytest.CaptureFixture[str]) -> None:
    exit_codes.complain(f"extension_error: {STEERS}")
    told = capsys.readouterr().err
    assert is_still(told)
    assert "gnp.exe" in told


@pytest.mark.parametrize(
    "write", [print_json, lambda value: print_json_lines([value])], ids=["json", "lines"]
)
def test_json_is_the_same_value_without_what_steers(
    write: object, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {STEERS: [STEERS, "é𝄞\U000e0001"]}
    write(value)  # type: ignore[operator]
    told = capsys.readouterr().out
    assert is_still(told)
    assert json.loads(told) == value


@given(st.text() | st.dictionaries(st.text(), st.text()))
def test_any_text_in_json_is_still_and_the_same(value: object) -> None:
    told = format_json(value)
    assert is_still(told)
    assert json.loads(told) == value


def test_a_table_and_a_panel_are_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    from router.shell.output import open_console

    print_table(("name", "value"), [(STEERS, STEERS)])
    open_console().print(build_grid([(STEERS, STEERS)]))
    assert is_still(capsys.readouterr().out)


def test_a_log_for_people_is_without_it() -> None:
    with capture_log(style="console") as lines:
        logs.logger("x").warning("a.b", subject=STEERS, names=[STEERS], more={"k": STEERS})
    assert is_still(lines.stream.getvalue())


def test_line_breaks_stay_where_text_has_several_lines() -> None:
    assert printable("a\nb\tc") == "a\nb\\tc"
