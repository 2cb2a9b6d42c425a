"""Documents in a directory: what is loaded, what is refused, what stays in force."""

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from router.buckets.directory import LARGEST, Directory

Key = tuple[str, str]


class Seen:
    """A directory and what it told."""

    def __init__(self, root: Path, interval_s: float = 0.01) -> None:
        self.root = root
        self.errors: list[tuple[str, str]] = []
        self.changes: list[Mapping[Key, object]] = []
        self.changed = asyncio.Event()
        self.directory = Directory(root, _read, on_change=self._on_change, on_error=self._on_error, interval_s=interval_s)

    def write(self, path: str, document: object) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        return file

    def load(self) -> dict[Key, object]:
        return dict(self.directory.load())

    def error_paths(self) -> list[str]:
        return [path for path, _ in self.errors]

    def _on_change(self, documents: Mapping[Key, object]) -> None:
        self.changes.append(documents)
        self.changed.set()

    def _on_error(self, path: str, message: str) -> None:
        self.errors.append((path, message))


def _read(key: Key, data: bytes) -> tuple[Key, object]:
    return key, json.loads(data)


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    (tmp_path / "policies").mkdir()
    return Seen(tmp_path / "policies")


def test_documents_are_keyed_by_folder_and_name(seen: Seen) -> None:
    seen.write("acme/default.json", 1)
    seen.write("a.b/c.json", 2)
    seen.write("a/b.c.json", 3)
    seen.write("_shared/default.json", 4)
    assert seen.load() == {("acme", "default"): 1, ("a.b", "c"): 2, ("a", "b.c"): 3, ("_shared", "default"): 4}
    assert seen.errors == []


def test_a_change_is_told_once_and_whole(seen: Seen) -> None:
    seen.write("acme/a.json", 1)
    seen.load()
    seen.write("acme/b.json", 2)
    seen.load()
    seen.load()
    assert seen.changes == [{("acme", "a"): 1}, {("acme", "a"): 1, ("acme", "b"): 2}]


def test_a_change_of_equal_length_in_the_same_instant_is_seen(seen: Seen) -> None:
    for value in range(1, 9):
        seen.write("acme/a.json", value)
        assert seen.load() == {("acme", "a"): value}


def test_a_file_that_was_only_touched_is_no_change(seen: Seen) -> None:
    file = seen.write("acme/a.json", {"x": 1})
    seen.load()
    os.utime(file, (1, 1))
    seen.load()
    assert len(seen.changes) == 1


@pytest.mark.parametrize("broken", [b"", b'{"half": ', b"\xff\xfe", b"[" * 200_000, b"1" + b" " * LARGEST])
def test_a_broken_file_leaves_its_last_good_version_in_force(seen: Seen, broken: bytes) -> None:
    seen.write("acme/a.json", 1)
    seen.write("acme/b.json", 1)
    seen.load()
    seen.write("acme/a.json", broken)
    seen.write("acme/b.json", 2)
    assert seen.load() == {("acme", "a"): 1, ("acme", "b"): 2}
    assert seen.error_paths() == ["acme/a.json"]


def test_an_error_is_told_once_until_it_is_another(seen: Seen) -> None:
    seen.write("acme/a.json", b"{")
    seen.load()
    seen.load()
    assert len(seen.errors) == 1
    seen.write("acme/a.json", 1)
    assert seen.load() == {("acme", "a"): 1}
    seen.write("acme/a.json", b"{")
    seen.load()
    assert len(seen.errors) == 2


def test_a_file_broken_from_the_start_loads_nothing(seen: Seen) -> None:
    seen.write("acme/a.json", b"{")
    assert seen.load() == {}
    assert seen.changes == []


def test_a_document_that_is_missing_twice_is_deleted(seen: Seen) -> None:
    file = seen.write("acme/a.json", 1)
    seen.load()
    file.unlink()
    assert seen.load() == {("acme", "a"): 1}
    assert seen.load() == {}
    assert seen.changes[-1] == {}


def test_an_editor_that_moves_a_file_away_before_it_writes_loses_nothing(seen: Seen) -> None:
    file = seen.write("acme/a.json", 1)
    seen.load()
    file.unlink()
    seen.load()
    seen.write("acme/a.json", 2)
    assert seen.load() == {("acme", "a"): 2}
    assert {} not in seen.changes


def test_a_deleted_folder_takes_its_documents_along(seen: Seen) -> None:
    file = seen.write("acme/a.json", 1)
    seen.load()
    file.unlink()
    file.parent.rmdir()
    seen.load()
    assert seen.load() == {}


def test_a_directory_that_is_away_keeps_everything_and_says_so(seen: Seen) -> None:
    seen.write("acme/a.json", 1)
    seen.load()
    away = seen.root.rename(seen.root.parent / "away")
    for _ in range(3):
        assert seen.load() == {("acme", "a"): 1}
    assert len(seen.errors) == 1
    away.rename(seen.root)
    assert seen.load() == {("acme", "a"): 1}


@pytest.mark.parametrize(
    "path", ["_private/a.json", "a b/a.json", "acme/_x.json", "acme/*.json", "acme/>.json", "acme/.json", "acme/notes.txt", "..x/a.json"]
)
def test_a_name_that_is_no_id_is_told_and_never_loaded(seen: Seen, path: str) -> None:
    seen.write(path, 1)
    assert seen.load() == {}
    assert len(seen.errors) == 1
    assert path.startswith(seen.errors[0][0])


def test_documents_stand_exactly_one_level_down(seen: Seen) -> None:
    seen.write("top.json", 1)
    seen.write("acme/deep/a.json", 1)
    assert seen.load() == {}
    assert seen.error_paths() == ["acme/deep", "top.json"]


def test_links_may_not_leave_the_directory(seen: Seen) -> None:
    outside = seen.root.parent / "outside"
    outside.mkdir()
    (outside / "a.json").write_text("1")
    (seen.root / "folder").symlink_to(outside)
    seen.write("acme/b.json", 2)
    (seen.root / "acme" / "a.json").symlink_to(outside / "a.json")
    (seen.root / "acme" / "c.json").symlink_to(seen.root / "acme" / "b.json")
    assert seen.load() == {("acme", "b"): 2, ("acme", "c"): 2}
    assert seen.error_paths() == ["acme/a.json", "folder"]


def test_what_is_not_a_file_is_not_opened(seen: Seen) -> None:
    (seen.root / "acme").mkdir()
    os.mkfifo(seen.root / "acme" / "a.json")
    assert seen.load() == {}
    assert seen.error_paths() == ["acme/a.json"]


def test_a_change_that_could_not_be_taken_is_told_again(seen: Seen) -> None:
    seen.write("acme/a.json", 1)
    told: list[Mapping[Key, object]] = []

    def refuse_once(documents: Mapping[Key, object]) -> None:
        told.append(documents)
        if len(told) == 1:
            raise RuntimeError("not now")

    directory = Directory(seen.root, _read, on_change=refuse_once, on_error=lambda path, message: None)
    with pytest.raises(RuntimeError):
        directory.load()
    directory.load()
    assert told == [{("acme", "a"): 1}] * 2


async def test_it_looks_again_by_itself(seen: Seen) -> None:
    seen.load()
    task = asyncio.create_task(seen.directory.run())
    seen.write("acme/a.json", 1)
    await asyncio.wait_for(seen.changed.wait(), 5)
    task.cancel()
    assert seen.changes == [{("acme", "a"): 1}]
