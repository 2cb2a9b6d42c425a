"""A key comes from a file that is its owner's alone, and is read again when that changes."""

import os
from pathlib import Path

import pytest

from router.core.errors import Misconfigured
from router.providers.key_file import MAX_KEY_BYTES, KeyFile
from tests.support.observability import LogLines
from tests.support.provider_services import KEY, write_key


def test_a_key_is_one_word_of_the_file(tmp_path: Path) -> None:
    assert KeyFile(write_key(tmp_path)).get() == KEY


def test_a_file_that_every_user_may_open_is_refused(tmp_path: Path) -> None:
    file = write_key(tmp_path)
    file.chmod(0o604)
    with pytest.raises(Misconfigured, match="chmod o-rwx"):
        KeyFile(file)
    file.chmod(0o640)  # a group may be the service's own, as in Kubernetes
    assert KeyFile(file).get() == KEY


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"a\nb", b"\xff", b"a\x00b", b"x" * (MAX_KEY_BYTES + 1)]
)
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = write_key(tmp_path)
    file.write_bytes(content)
    with pytest.raises(Misconfigured) as refused:
        KeyFile(file)
    assert str(refused.value) == "--key-file: the file should hold one key, and nothing else"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        KeyFile(tmp_path / "none")


def test_a_key_that_is_replaced_is_used_with_the_next_call(tmp_path: Path) -> None:
    key = KeyFile(write_key(tmp_path))
    new = write_key(tmp_path / "..", "sk-new")
    os.replace(new, tmp_path / "api.key")
    assert key.get() == "sk-new"


def test_a_key_that_becomes_illegal_stays_as_it_was_and_the_log_says_so(
    tmp_path: Path, lines: LogLines
) -> None:
    file = write_key(tmp_path)
    key = KeyFile(file)
    file.write_text("two words")
    assert [key.get(), key.get()] == [KEY, KEY]
    file.unlink()
    assert key.get() == KEY
    assert [line["event"] for line in lines.all()] == ["provider.key_unread"]
    write_key(tmp_path, "sk-new")
    assert key.get() == "sk-new"
