"""The page is one file that fetches nothing, tells the figures, and trusts no name."""

import re
from pathlib import Path

import pytest

from router.lake.report import UsageQuery
from router.lake.report.charts import MAX_BAR, choose_ticks, format_ms, format_number
from router.lake.report.page import PAGE_COLUMNS, render_page
from router.lake.report.read import read_parts
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import Lake, a_body, an_adjustment


def a_page(path: Path, *uses: Use) -> str:
    return render_page(
        list(read_parts(a_warehouse(path, uses), UsageQuery(by=PAGE_COLUMNS))), "All events"
    )


def test_the_page_fetches_nothing_and_runs_nothing(tmp_path: Path) -> None:
    page = a_page(tmp_path, Use())
    assert not re.search(r"(?i)https?:|<script|<link|@import|url\(|<img", page)


def test_the_figures_are_exact(tmp_path: Path) -> None:
    page = a_page(
        tmp_path, Use(cost="1234.000000001", latencies=(100,) * 3), Use(status="error", cost="0.0")
    )
    assert "exactly 1,234.000000001" in page
    assert "25.00%" in page
    assert "1 errors and timeouts" in page


def test_a_name_that_is_markup_is_text(tmp_path: Path) -> None:
    page = a_page(
        tmp_path, Use(tenant="<script>alert(1)</script>", provider='"><b>x</b>', type="&lt;")
    )
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_a_name_is_cut_and_its_invisible_characters_are_told(tmp_path: Path) -> None:
    """A megabyte of one name made a page of several, and one character turned the text of a row
    around.
    """
    long, odd = "n" * 1_000_000, "\x1b[31m\u202egnp.exe\u2066"
    for name in (long, odd):
        page = a_page(
            tmp_path / str(len(name)), Use(tenant=name, provider=name, type=name), Use(tenant="z")
        )
        assert len(page) < 40_000
        assert not set("\x1b\u202e\u2066") & set(page)
    assert "\\u202egnp.exe" in page
    about = render_page(
        read_parts(a_warehouse(tmp_path / "about", [Use()]), UsageQuery(by=PAGE_COLUMNS)),
        f"Tenant {long}, {odd}",
    )
    assert len(about) < 40_000
    assert not set("\x1b\u202e\u2066") & set(about)


def test_names_that_look_alike_when_they_are_cut_are_two(tmp_path: Path) -> None:
    page = a_page(tmp_path, *(Use(tenant="n" * 100 + end) for end in "ab"))
    assert page.split('class="legend"')[1].split("</ul>")[0].count("<li>") == 2


def test_tenants_beyond_the_dearest_share_a_colour(tmp_path: Path) -> None:
    uses = [Use(tenant=f"t-{rank}", cost=str(100 - rank)) for rank in range(10)]
    legend = a_page(tmp_path, *uses).split('class="legend"')[1]
    assert "all others" in legend
    assert "t-5" in legend
    assert "t-6" not in legend.split("</ul>")[0]


def test_many_days_have_few_labels(tmp_path: Path) -> None:
    uses = [Use(day=f"2026-{month:02d}-{day:02d}") for month in range(1, 13) for day in (1, 5, 9)]
    page = a_page(tmp_path, *uses)
    assert page.count("2026-05-05, acme") == 1
    assert len(re.findall(r">\d\d-\d\d</text>", page)) <= 16


def test_a_single_day_is_a_bar_and_no_wall(tmp_path: Path) -> None:
    chart = a_page(tmp_path, Use(), Use(tenant="zed")).split("Cost by day")[1].split("</svg>")[0]
    assert [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', chart)] == [
        MAX_BAR,
        MAX_BAR,
    ]


def test_what_it_is_about_begins_as_a_sentence_does(tmp_path: Path) -> None:
    assert '<p class="about">Day 2026-11-20. &lt;b&gt;' in render_page(
        read_parts(a_warehouse(tmp_path, [Use()]), UsageQuery(by=PAGE_COLUMNS)),
        "day 2026-11-20. <b>",
    )


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    uses = [Use(tenant=t, provider=p) for t in "abc" for p in "xy"]
    assert a_page(tmp_path / "1", *uses) == a_page(tmp_path / "2", *reversed(uses))


def test_adjustments_and_what_is_not_billed_are_told_and_break_no_chart(lake: Lake) -> None:
    """A tenant whose cost is below 0, and a provider that has no outcome."""
    lake.take(a_body(cost="2.0", input_tokens=1200, output_tokens=34), an_adjustment(cost="-7.5"))
    lake.take(a_body("r-2", provider_id="unheard", correlated=False, cost="1e9"))
    page = render_page(list(read_parts(lake.warehouse, UsageQuery(by=PAGE_COLUMNS))), "All events")
    assert "exactly -5.500000000" in page
    assert "1 adjustments, exactly -7.500000000, in the cost" in page
    assert "1 results of unknown assignments, in no cost" in page
    assert "1,200 in (0 of them cached), 34 out" in page
    assert "unheard" not in page.split("Latency by provider")[1].split("</svg>")[0]
    assert not re.search(r"\bnan\b", page)


def test_no_events_are_told(tmp_path: Path) -> None:
    assert "Nothing was found" in a_page(tmp_path)


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0.0, [0, 1]),
        (4.2, [0, 1, 2, 3, 4, 5]),
        (10.0, [0, 2, 4, 6, 8, 10]),
        (137.0, [0, 50, 100, 150]),
    ],
)
def test_axes_have_round_steps(most: float, ticks: list[float]) -> None:
    assert choose_ticks(most) == ticks


def test_figures_are_short() -> None:
    assert [format_number(value) for value in (0.0, 0.25, 40.0, 12_345.0, 3.2e6, 7.5e9)] == [
        "0",
        "0.25",
        "40",
        "12.35 k",
        "3.2 M",
        "7.5 G",
    ]
    assert [format_ms(value) for value in (3.0, 812.4, 1_500.0)] == ["3 ms", "812 ms", "1.5 s"]
