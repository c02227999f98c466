"""Make descriptions of classes that are incomplete or wrong, as users write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

Descriptions = Mapping[str, Any]

_MARKS = ("record ", "final ", "class ", "generic ", "open ")
_OTHER_TYPES = {"int": "String", "long": "int", "String": "long", "double": "String", "boolean": "String"}


def wrong_descriptions(right: Descriptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is wrong, and descriptions that differ in it: one class, field, type or mark of a heading each."""
    for heading, body in right.items():
        others = {name: own for name, own in right.items() if name != heading}
        yield f"without {heading}", others
        for changed in _other_headings(heading):
            yield f"{changed!r} for {heading!r}", {**others, changed: body}
        for what, other in _other_bodies(body):
            yield f"{heading}: {what}", {**others, heading: other}


def _other_headings(heading: str) -> Iterator[str]:
    """Yield the heading without one of its marks, and with marks that it has not."""
    plain = heading
    for mark in _MARKS:
        if plain.startswith(mark):
            plain = plain.removeprefix(mark)
            yield plain
    for word in (" extends ", " implements "):
        own, found, _ = heading.partition(word)
        if found:
            yield own
    for mark in ("record ", "final "):
        if not heading.startswith(mark):
            yield mark + plain


def _other_bodies(body: Any) -> Iterator[tuple[str, Any]]:
    """Yield the body with a field less, more, of another type, or exchanged; with fewer constants; as fields."""
    if isinstance(body, dict):
        for name, type_ in body.items():
            yield f"no field {name}", {own: it for own, it in body.items() if own != name}
            yield f"{name} of another type", {**body, name: _OTHER_TYPES.get(type_, "int")}
        for one, other in pairwise(body):
            if body[one] != body[other]:
                yield f"{one} and {other} exchanged", {**body, one: body[other], other: body[one]}
        yield "a field more", {**body, "zz": "String"}
        yield "a map", "map<String, Object>"
    elif isinstance(body, list):
        yield "no last constant", body[:-1]
        yield "fields for constants", {"a": "int"}
    else:
        yield "fields for what it holds", {"a": "int"}
        if "|" in body:
            yield "one class less", " | ".join(part.strip() for part in body.split("|")[:-1])
