"""Draw an object as a card in a notebook: JupyterLab and VS Code, light and dark.

Colours derive from the notebook's own text colour, so that a card fits every theme; its styles apply to itself only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stateproc.html.templates import asset, render
from stateproc.html.type_tree import TypeNode

MOST_ROWS = 20
"""Rows of a card's table; what follows is counted in a note."""
_LONGEST = 240


@dataclass(frozen=True)
class Head:
    """A column of a card's table."""

    name: str
    number: bool = False


@dataclass(frozen=True)
class CardCell:
    """A cell: text, with a coloured square of a style before it and a note after it, or a bar for a share."""

    text: str = ""
    note: str = ""
    style: str = ""
    strong: bool = False
    code: bool = False
    share: float | None = None


@dataclass(frozen=True)
class Card:
    """What a card shows; empty parts are omitted."""

    title: str
    kind: str
    facts: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = ()
    heads: Sequence[Head] = ()
    rows: Sequence[Sequence[CardCell]] = ()
    columns: Sequence[TypeNode] = ()
    notes: Sequence[str] = ()

    def html(self) -> str:
        """Return the card as HTML."""
        return render("card.html.j2", card=self, style=asset("card.css"), pictures_style=asset("pictures.css"))


def short(text: str | None) -> str:
    """Return a text that is cut where it is too long; a dash for None."""
    if not text:
        return "–"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
