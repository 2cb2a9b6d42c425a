"""Mistakes of those who type: each is told in a line, with the status that its cause has, and
nothing is done half without a word.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from router.operate.commands.dead_letters.replay import edit_payload
from router.shell.exit_codes import INTERRUPTED, NO, USAGE
from tests.support.cli import COMMAND, call_command, clean_environment, router
from tests.support.lake_accounts import an_account, body, tables_of

BIG = str(2**63)


@pytest.mark.parametrize(
    "editor", ["false", f"{sys.executable} {{broken}}", "'unbalanced", "no-such-editor"]
)
def test_an_editor_that_fails_sends_nothing(
    editor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(b'\\xff')")
    monkeypatch.setenv("EDITOR", editor.format(broken=broken))
    monkeypatch.delenv("VISUAL", raising=False)
    assert edit_payload(b'{"a": 1}') is None
    assert capsys.readouterr().err.startswith("router: the editor failed, so nothing is sent: ")


@pytest.mark.parametrize(
    "command",
    [
        "extension try {file}:f --payload hi",
        "worker module_that_ends:f",
        "agent run module_that_ends:f",
        "agent run function_that_ends:f",
        "inbox consume module_that_ends:f",
    ],
)
def test_a_module_that_ends_the_process_is_not_told_as_done(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_that_ends.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "file_that_ends.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "function_that_ends.py").write_text("import sys\ndef f():\n    sys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    ended = call_command(*command.format(file=tmp_path / "file_that_ends.py").split())
    assert (ended.status, "SystemExit: 0" in ended.err) == (USAGE, True), ended.err


def test_a_backup_whose_manifest_is_no_text_is_told_as_unusable(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"server": "\xff"}')
    ended = call_command("restore", str(tmp_path))
    assert (ended.status, "manifest.json cannot be read" in ended.err) == (NO, True)


@pytest.mark.parametrize("command", ["policy lint {empty}", "contract diff {empty} {empty}"])
def test_a_directory_with_nothing_to_check_is_a_wrong_path(command: str, tmp_path: Path) -> None:
    ended = call_command(*command.format(empty=tmp_path).split())
    assert (ended.status, ended.out) == (USAGE, "")
    assert "there is no" in " ".join(ended.err.replace("│", "").split())


@pytest.mark.parametrize(
    "command",
    [
        "decide --file {file} --push",
        "decide --file {file} --policy fast",
        "decide --file {file} --context a=b",
        "decide --file {file} --request-id r-1",
        "extension register {file} --timeout-ms 200",
        "extension register {file} --retry 1",
        "extension register {file} --subject beamline.ext.pre.a.v1",
        "extension register {file} --type pre",
        "extension register {file} --extension-config {{}}",
        "bus publish --file {file} --payload {{}}",
        "bus publish --file {file} --actor me",
        "bus publish --file {file} --id evt_1",
        "usage seal --to 2026-10-31",
    ],
)
def test_an_option_that_would_be_dropped_is_refused(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text("{}")
    ended = call_command(*command.format(file=file).split())
    assert (ended.status, ended.out) == (USAGE, "")
    assert "with" in ended.err or "--from" in ended.err


def test_ctrl_c_at_a_question_is_an_interrupt_and_the_end_of_the_input_is_a_no(
    tmp_path: Path,
) -> None:
    an_account(tmp_path, tables_of([body(1)], ["0.25"]))
    arguments = ("usage", "erase", "--tenant", "acme", "--warehouse", str(tmp_path))
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=PIPE, stdout=PIPE, stderr=PIPE, env=clean_environment()
    )
    assert process.stderr is not None
    assert process.stderr.read(5) == b"Erase"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, b"Traceback" in err) == (INTERRUPTED, False)
    assert call_command(*arguments).status == NO


@pytest.mark.parametrize(
    "command",
    [
        f"agent events --store {{file}} --limit {BIG}",
        f"dlq show {BIG}",
        f"dlq replay {BIG}",
        f"contract violation {BIG}",
        "dlq replay --all --rate inf",
        "provider invoke openai --tenant acme --timeout inf --prompt hi",
        "worker --echo --ack-wait inf",
        "worker --echo --ack-wait 1e15",
        f"usage vacuum --older-than {10**12}",
        "usage generate --events 100 --days nan",
        "usage generate --events 100 --days inf",
        "usage backfill --from 2026-11-01 --to 2206-11-01",
    ],
)
def test_a_number_beyond_its_bound_is_wrong_use(command: str, tmp_path: Path) -> None:
    ended = call_command(*command.format(file=tmp_path / "s.db").split())
    assert (ended.status, ended.out) == (USAGE, ""), ended.err
    assert any(words in ended.err for words in ("2^53", "less than or equal to", "at most 3660")), (
        ended.err
    )


def test_names_that_are_no_text_are_printed_as_they_can_be(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    os.close(os.open(os.fsencode(tmp_path / "acme") + b"/Z\xfcrich.json", os.O_CREAT | os.O_WRONLY))
    ended = call_command("policy", "lint", str(tmp_path), "--json")
    assert ended.status == NO
    assert "Z?rich.json" in json.loads(ended.out.splitlines()[0])["file"]


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_closed_stream_is_no_traceback(closed: str) -> None:
    line = " ".join([*COMMAND, "version", closed])
    ended = subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        env=clean_environment(),
        timeout=120,
        check=False,
        input=b"{}",
    )
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False)
    line = " ".join([*COMMAND, "contract", "check", "-", closed])
    ended = subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        env=clean_environment(),
        timeout=120,
        check=False,
        input=b"{}",
    )
    assert (ended.returncode in (NO, USAGE), b"Traceback" in ended.stderr) == (True, False)


def test_a_home_that_does_not_exist_is_wrong_use() -> None:
    ended = router("usage", "seal", "--warehouse=~no-such-user-of-router/usage")
    assert (ended.status, ended.out) == (USAGE, "")
