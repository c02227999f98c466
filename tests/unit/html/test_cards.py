"""Cards of snapshots, operators and states in notebooks."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import stateproc
from stateproc.html.cards import Card, CardCell, Head, TypeNode
from stateproc.storage.sources import FileSource
from tests.helpers.fixtures import Fixture, newest_fixtures
from tests.helpers.page_reports import HOSTILE
from tests.helpers.paths import DEMO, FIXTURES, python_environment

UIDS = ["orders-from-kafka", "orders-per-customer", "revenue-per-product"]


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1] != "style":
            self.text += f" {data.strip()}"


def test_a_snapshot_shows_its_operators_without_reading_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = stateproc.open(str(DEMO), uids=UIDS)

    def refuse(*_: object) -> bytes:
        raise AssertionError("a file is read")

    monkeypatch.setattr(FileSource, "read", refuse)
    shown = Tags(snapshot._repr_html_()).text
    for text in ("Canonical savepoint 1", str(DEMO), "1.16 – 1.20", "88.9 KiB", "79.7 KiB", "2 of 128", *UIDS):
        assert text in shown


def test_an_operator_shows_its_states() -> None:
    shown = Tags(stateproc.open(str(DEMO), uids=UIDS).operator("orders-per-customer")._repr_html_()).text
    for text in ("orders-per-customer", "profile", "Map<String, Double>", "processing timers", "79.7 KiB"):
        assert text in shown


def test_a_state_shows_its_columns() -> None:
    shown = Tags(stateproc.open(str(DEMO), uids=UIDS).state("orders-per-customer", "profile")._repr_html_()).text
    for text in ("value state", "Pojo Profile", "address", "street", "int16"):
        assert text in shown


def test_a_state_that_cannot_be_read_says_why() -> None:
    snapshot = stateproc.open(str(FIXTURES / "1.20/many-states-rocksdb-incremental/snapshot"))
    (operator,) = [operator for operator in snapshot.operators if operator.states]
    assert "and 32 states more" in operator._repr_html_()
    bad = next(state for state in operator.states if state.problem is not None)
    assert "register a parser" in bad._repr_html_()


def test_text_of_a_snapshot_is_never_markup() -> None:
    card = Card(
        HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)], [HOSTILE], [Head(HOSTILE)],
        [[CardCell(HOSTILE, note=HOSTILE, style=HOSTILE)]], [TypeNode(HOSTILE, HOSTILE)], [HOSTILE],
    )  # fmt: skip
    assert not {"script", "img"} & set(Tags(card.html()).found)


SWEPT = newest_fixtures()


@pytest.mark.exhaustive
@pytest.mark.parametrize("fixture", SWEPT, ids=lambda fixture: fixture.name)
def test_everything_has_a_card(fixture: Fixture) -> None:
    snapshot = fixture.open()
    for shown in (snapshot, *snapshot.operators, *snapshot.states):
        html = shown._repr_html_()
        assert html.startswith('<div class="sp sp-card">') and len(html) < 100_000


@pytest.mark.processes
def test_templates_are_imported_for_cards_only(tmp_path: Path) -> None:
    program = f"import sys, stateproc; stateproc.open({str(DEMO)!r}).states; print('jinja2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=python_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]
