"""Each page of results says what it is of, and no text quotes a figure that its page does not have."""

import re
from pathlib import Path

import pytest

from bench import pages, quotes
from bench.pages import QUOTING, Origin, ResultPage, compare, list_pages, make_list, read_origin
from bench.quotes import ABSENT, RESULTS, NotThere, fill, find
from tests.docs.pages import TOP

AGAIN = "run `make bench-pages`"
# a rate, a time or a size, as it is measured
MEASURED = re.compile(
    r"\d(?:[\d ,.]*\d)?\s*(?:µs|ms\b|MiB|GB\b|(?:requests|results|events|rows|circles|acks)/s\b|/ ?s\b)|\d\.\d+ ×"
)
# a block of code; a point that computes with examples
EXAMPLE = re.compile(r"```.*?```|^\* \*\*Computed.*?(?=^\* |\n\n)", re.DOTALL | re.MULTILINE)

PAGE = """# Bench

- date: 2026-11-29 17:01 UTC
- commit: 21b77d36

| question | figure | router | its figure | CPU µs/msg |
| --- | --- | ---: | ---: | ---: |
| acks | acks/s | 47,150 (40,841 … 54,030) | 89,120 | 18.6 : 10.9 |

## Again

| question | figure | router | its figure | CPU µs/msg |
| --- | --- | ---: | ---: | ---: |
| acks | acks/s | 50 | 89,120 | 20 : 10.9 |
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "bench.md").write_text(PAGE)
    return tmp_path


# -- what is in the repository ---------------------------------------------------------------------


def test_every_page_of_results_says_its_date_and_commit() -> None:
    assert {page.name for page in list_pages()} == {
        file.name for file in RESULTS.glob("*.md") if file.name != pages.LIST
    }


def test_the_list_of_pages_is_the_one_that_the_script_makes() -> None:
    assert (RESULTS / pages.LIST).read_text() == make_list(), AGAIN


@pytest.mark.parametrize("name", QUOTING)
def test_a_quoted_figure_is_in_its_page(name: str) -> None:
    text = (TOP / name).read_text()
    assert text == fill(text), AGAIN


@pytest.mark.parametrize("name", QUOTING)
def test_no_figure_is_quoted_by_hand(name: str) -> None:
    text = EXAMPLE.sub("", quotes.strip_marked((TOP / name).read_text()))
    assert MEASURED.findall(text) == []


def test_what_the_disk_and_copies_cost_is_quoted() -> None:
    quoted = quotes.list_quoted((TOP / "docs/explanation/sizing.md").read_text())
    assert {"always : default", "3 servers: acks"} <= {one.split("; ")[-1] for one in quoted}


# -- how a figure is quoted ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "figure"),
    [
        ("bench.md; acks; router", "47,150"),
        ("bench.md; acks; acks/s; CPU µs/msg", "18.6"),
        ("bench.md; acks; CPU µs/msg [2]", "10.9"),
        ("bench.md; acks; @2; router", "50"),
        ("bench.md#Again; acks; router", "50"),
    ],
)
def test_a_figure_is_found_by_page_row_and_column(source: str, figure: str, results: Path) -> None:
    assert find(source, results) == figure
    text = f"<!--figure {source}-->1<!--/--> acks"
    assert fill(text, results) == f"<!--figure {source}-->{figure}<!--/--> acks"


@pytest.mark.parametrize(
    "source",
    ["bench.md; acks; yardstick", "bench.md; agents; router", "gone.md; acks; router"],
)
def test_a_figure_that_is_not_in_its_page_is_an_error(source: str, results: Path) -> None:
    with pytest.raises(NotThere):
        fill(f"<!--figure {source}-->1<!--/-->", results)
    assert ABSENT in fill(f"<!--figure? {source}-->1<!--/-->", results)


def test_a_figure_is_computed_from_figures(results: Path) -> None:
    text = "<!--figure 1000 * ([bench.md; acks; CPU µs/msg] + 1) / 2-->0<!--/-->"
    assert ">9,800<" in fill(text, results)


def test_the_second_column_of_a_name_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("| of | p99 | p99 |\n| --- | --- | --- |\n| flood | 2.0 | 7 |\n")
    assert find("a.md; flood; p99 #2", tmp_path) == "7"


# -- how old a page is -----------------------------------------------------------------------------


def test_a_page_of_other_code_than_the_whole_run_is_old_or_newer() -> None:
    whole = Origin("2026-11-29", "21b77d36")
    assert compare(Origin("2026-11-20", "21b77d3"), whole) == ""
    assert compare(Origin("2026-11-20", "e3341ebb"), whole) == "old"
    assert compare(Origin("2026-11-30", "e3341ebb"), whole) == "newer"


def test_a_page_without_its_two_lines_is_refused(results: Path) -> None:
    assert list_pages(results) == [
        ResultPage("bench.md", "Bench", Origin("2026-11-29", "21b77d36"))
    ]
    (results / "soak.md").write_text("# Soak\n\n- date: 2026-11-29\n")
    assert read_origin((results / "soak.md").read_text()) is None
    with pytest.raises(ValueError, match=r"soak\.md"):
        make_list(results)
