"""Documents in a directory: what is read, what is refused and why."""

import json
import os
from pathlib import Path

import pytest

from router.delivery.kv.directory import (
    MAX_DOCUMENT_BYTES,
    Document,
    UnreadableFile,
    read_documents,
)


class Folder:
    """A directory of documents."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root

    def write(self, path: str, document: object) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        return file

    @property
    def documents(self) -> dict[tuple[str, str], object]:
        return {
            one.key: json.loads(one.data)
            for one in read_documents(self.root)
            if isinstance(one, Document)
        }

    @property
    def refused(self) -> list[str]:
        return [one.path for one in read_documents(self.root) if isinstance(one, UnreadableFile)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "policies")


def test_documents_are_keyed_by_folder_and_name(folder: Folder) -> None:
    folder.write("acme/default.json", 1)
    folder.write("a.b/c.json", 2)
    folder.write("a/b.c.json", 3)
    folder.write("_shared/default.json", 4)
    assert folder.documents == {
        ("acme", "default"): 1,
        ("a.b", "c"): 2,
        ("a", "b.c"): 3,
        ("_shared", "default"): 4,
    }
    assert folder.refused == []


@pytest.mark.parametrize(
    "path",
    [
        "_private/a.json",
        "a b/a.json",
        "acme/_x.json",
        "acme/*.json",
        "acme/>.json",
        "acme/.json",
        "acme/notes.txt",
        "..x/a.json",
    ],
)
def test_a_name_that_is_no_id_is_told_and_never_read(folder: Folder, path: str) -> None:
    folder.write(path, 1)
    folder.write("acme/good.json", 2)
    assert folder.documents == {("acme", "good"): 2}
    (refused,) = folder.refused
    assert path.startswith(refused)


def test_documents_stand_exactly_one_level_down(folder: Folder) -> None:
    folder.write("top.json", 1)
    folder.write("acme/deep/a.json", 1)
    assert (folder.documents, folder.refused) == ({}, ["acme/deep", "top.json"])


def test_links_may_not_leave_the_directory(folder: Folder) -> None:
    outside = folder.root.parent / "outside"
    outside.mkdir()
    (outside / "a.json").write_text("1")
    (folder.root / "folder").symlink_to(outside)
    folder.write("acme/b.json", 2)
    (folder.root / "acme" / "a.json").symlink_to(outside / "a.json")
    (folder.root / "acme" / "c.json").symlink_to(folder.root / "acme" / "b.json")
    assert folder.documents == {("acme", "b"): 2, ("acme", "c"): 2}
    assert folder.refused == ["acme/a.json", "folder"]


def test_what_is_not_a_file_is_not_opened(folder: Folder) -> None:
    (folder.root / "acme").mkdir()
    os.mkfifo(folder.root / "acme" / "a.json")
    assert (folder.documents, folder.refused) == ({}, ["acme/a.json"])


def test_what_is_too_large_is_not_read(folder: Folder) -> None:
    folder.write("acme/a.json", b"1" + b" " * MAX_DOCUMENT_BYTES)
    assert (folder.documents, folder.refused) == ({}, ["acme/a.json"])


def test_a_directory_that_is_not_there_says_so(folder: Folder) -> None:
    assert read_documents(folder.root / "nowhere") == [
        UnreadableFile("", "cannot be listed: No such file or directory")
    ]
