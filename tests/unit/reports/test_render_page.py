"""The page: bounded, escaped, complete."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from markupsafe import escape

from stateproc.reports.inspect_report import snapshot_report
from stateproc.reports.page.page_report import PageReport, page_report
from stateproc.reports.page.render_page import render_page
from stateproc.reports.state_sizes import operator_sizes
from stateproc.reports.state_times import state_times
from tests.helpers.fixtures import Fixture, newest_fixtures
from tests.helpers.page_reports import NOW, hostile_report, large_report, operator, report, state

_VOID = {"meta", "link", "input", "br", "img"}


class Outline(HTMLParser):
    """Tags, attributes and text; fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def page_of(facts: PageReport) -> str:
    return render_page(facts, version="1.2.3", made=NOW)


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.stack == []
    return parser


def test_text_of_a_snapshot_is_never_markup() -> None:
    page = page_of(hostile_report())
    found = outline(page)
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in found.tags)
    assert "<img" not in page and page.count("window.hacked") == page.count("&lt;script&gt;window.hacked") * 2
    assert "\u202e" not in page and "\\u202e" in page
    assert "{{7*7}}" in page and "49" not in re.findall(r"\$\{1\}(\d*)", page)


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = page_of(report([operator("a", "b" * 32, [state("s", 5)])]))
    assert not re.search(r"https?:|@import|url\(", page)
    references = [attributes.get(name) for _, attributes in outline(page).tags for name in ("src", "href")]
    assert all(value is None or value.startswith(("#", "data:")) for value in references)
    assert "default-src 'none'" in page.replace("&#39;", "'")


def test_ids_are_unique_and_links_lead_to_them() -> None:
    found = outline(page_of(large_report(40)))
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in found.tags:
        if (attributes.get("href") or "").startswith("#"):
            assert (attributes["href"] or "")[1:] in ids
        if "aria-controls" in attributes:
            assert attributes["aria-controls"] in ids


@pytest.mark.slow
def test_a_large_job_stays_below_two_megabytes() -> None:
    page = page_of(large_report())
    assert len(page.encode()) < 2_000_000
    assert "state-0-0" in page and "75 operators" in page


@pytest.mark.exhaustive
def test_a_job_of_any_size_stays_below_two_megabytes() -> None:
    states = [state("ä" * 3_000 + str(number), 10**6 - number, value_type="字" * 5_000) for number in range(9_000)]
    operators = [
        operator("é" * 5_000 + str(at), f"{at:032x}", states[at::400], problems=["p" * 9_000]) for at in range(400)
    ]
    assert len(page_of(report(operators)).encode()) < 2_000_000


@pytest.mark.exhaustive
@pytest.mark.parametrize("fixture", newest_fixtures())
def test_every_kind_of_snapshot_has_a_page(fixture: Fixture) -> None:
    snapshot = fixture.open()
    operators = list(snapshot.operators)
    inspect = snapshot_report(snapshot, operators, lambda operator: operator_sizes(operator, scan=False))
    times = list(state_times(operators, scan=False))
    page = page_of(page_report(snapshot, operators, inspect, times, scan=False))
    outline(page)
    assert all(escape(state.name) in page for state in snapshot.states)


def test_an_empty_snapshot_has_a_page() -> None:
    page = page_of(report([]))
    outline(page)
    assert "none found" in page and 'id="states"' not in page


def test_problems_are_grouped_with_their_advice() -> None:
    states = [
        state(f"s{at}", 5, problem=f"class C is unknown [file x, state 's{at}']\n  → describe C") for at in range(20)
    ]
    page = page_of(report([operator("op", "a" * 32, [*states, state("t", 1, problem="other")])]))
    assert "21 states cannot be read" in page
    assert page.count("<strong>class C is unknown</strong>") == 1
    assert "→ describe C" in page and "and 8 more" in page


def test_skew_is_what_the_terminal_shows() -> None:
    groups = {0: 10, 5: 30, 7: 20}
    page = page_of(report([operator("op", "a" * 32, [state("s", 60)], key_group_bytes=groups)]))
    assert "1.5×" in page and "125 key groups without data" in page and "largest: 5" in page
