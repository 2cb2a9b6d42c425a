"""What `make docs` builds its site from; the build itself is too slow for here."""

from pathlib import Path

from tests.docs.pages import TOP, find_pages
from tests.docs.site.stage import stage_pages


def test_every_page_of_the_folder_and_every_picture_is_staged(tmp_path: Path) -> None:
    stage_pages(tmp_path)
    pictures = [file for file in (TOP / "docs" / "pictures").rglob("*") if file.is_file()]
    wanted = [*find_pages(TOP / "docs"), *pictures]
    assert [file for file in wanted if not (tmp_path / file.relative_to(TOP)).is_file()] == []
