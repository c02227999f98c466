"""Draw an object as a card in a notebook: JupyterLab and VS Code, light and dark.

Colours derive from the notebook's own text colour, so that a card fits every theme; its styles apply to itself only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from markupsafe import Markup

from stateproc.html import pictures
from stateproc.html.units import counted, human_bytes, size_parts, visible

if TYPE_CHECKING:
    from jinja2 import Environment

# Describe Arrow schemas as trees of names and types, bounded in depth and size.

_DEEPEST, _MOST_FIELDS = 12, 400


@dataclass(frozen=True)
class TypeNode:
    """A column, a field of a struct, the element of a list, or the key or value of a map."""

    name: str
    type: str
    children: tuple[TypeNode, ...] = ()


def type_tree(schema: pa.Schema) -> tuple[TypeNode, ...]:
    """Return one tree per column. Of nested types only the kind is text: ``struct``, ``list``, ``map``."""
    budget = [_MOST_FIELDS - len(schema)]
    return tuple(_node(field.name, field.type, 1, budget) for field in schema)


def _node(name: str, type_: Any, depth: int, budget: list[int]) -> TypeNode:
    parts = _parts(type_)
    if not parts or depth == _DEEPEST or budget[0] < len(parts):
        text = str(type_)
        return TypeNode(name, text if len(text) <= 200 else text[:199] + "…")
    budget[0] -= len(parts)
    return TypeNode(name, _kind(type_), tuple(_node(*part, depth + 1, budget) for part in parts))


def _parts(type_: Any) -> list[tuple[str, Any]]:
    if pa.types.is_struct(type_):
        return [(type_.field(at).name, type_.field(at).type) for at in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [("key", type_.key_type), ("value", type_.item_type)]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [("element", type_.value_type)]
    return []


def _kind(type_: Any) -> str:
    if pa.types.is_struct(type_):
        return "struct"
    return "map" if pa.types.is_map(type_) else "list"


# Fill templates. Every value is escaped, whatever a snapshot contains.


def _shown(value: Any) -> Any:
    """Make what a template prints visible; ``Markup`` is left as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # Lazy: start-up.

    environment = Environment(
        loader=PackageLoader("stateproc.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(bar=pictures.bar, counted=counted, human_bytes=human_bytes, size_parts=size_parts)
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template with these values. Only ``Markup`` is not escaped."""
    return _environment().get_template(template).render(**values)


@cache
def asset(name: str) -> Markup:
    """Return a style sheet or script of this package, to be part of a page as it is."""
    return Markup((files("stateproc.html") / "templates" / name).read_text(encoding="utf-8"))


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
