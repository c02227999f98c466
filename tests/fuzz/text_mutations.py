"""Damage of texts that keeps most of their form: of documents of JSON and YAML by parts, of expressions by tokens."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import yaml

_TOKEN = re.compile(r"\w+|\s+|'[^']*'|\"[^\"]*\"|.", re.DOTALL)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**40, 0.5, 1e308, "", "x", "\0", "null", "1", "a" * 300, [],
    {}, [[]], {"": None}, [None], ["x"], {"x": {}},
)  # fmt: skip
_DEEPEST = 40
_LARGEST = 1 << 16
"""Larger documents are left to other damage: most of the time would be spent on copies."""


def damaged_document(rng: random.Random, data: bytes, others: Sequence[bytes], opening: str = "") -> bytes:
    """Change some parts of a document; what is no document comes back as it is.

    Args:
        rng: What chooses.
        data: The document.
        others: Documents whose parts take the place of some.
        opening: What the reader puts before the document, which therefore begins after it.
    """
    tree = _tree(opening, data) if len(data) <= _LARGEST else None
    if not isinstance(tree, dict | list):
        return data
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(tree))
        if not places:
            break
        owner, at = rng.choice(places)
        choice = rng.random()
        if choice < 0.3:
            owner[at] = copy.deepcopy(rng.choice(_VALUES))  # It is changed in its turn.
        elif choice < 0.55:
            other, place = rng.choice(places)
            owner[at] = json.loads(json.dumps(other[place], default=str))
        elif choice < 0.7:
            text = rng.choice(others)
            donor = _tree(opening, text) if len(text) <= _LARGEST else None
            parts = list(_places(donor))
            if parts:
                other, place = rng.choice(parts)
                owner[at] = other[place]
        elif choice < 0.85:
            del owner[at]
        elif isinstance(owner, dict):
            other = rng.choice([str(key) for key in owner])
            owner[other] = owner.pop(at)
        else:
            owner.insert(at, owner[at])
    text = json.dumps(tree, default=str, ensure_ascii=rng.random() < 0.5)
    return text.removeprefix(opening).encode("utf-8", "surrogatepass")


def _tree(opening: str, data: bytes) -> Any:
    text = opening + data.decode("utf-8", "replace")
    try:
        return json.loads(text) if text.startswith("{") else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def _places(tree: Any, depth: int = 0) -> Any:
    """Yield each object or list, with each key or index in it."""
    if depth < _DEEPEST and isinstance(tree, dict | list):
        for at in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, at
            yield from _places(tree[at], depth + 1)


def damaged_expression(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Drop, repeat, swap or replace tokens, also by those of others."""
    tokens = _TOKEN.findall(data.decode("utf-8", "replace"))
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not tokens:
            break
        at, choice = rng.randrange(len(tokens)), rng.random()
        if choice < 0.25:
            del tokens[at]
        elif choice < 0.4:
            tokens.insert(at, tokens[rng.randrange(len(tokens))])
        elif choice < 0.55:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif choice < 0.65:
            tokens[at] = rng.choice(("((((((((", ")", "9" * 30, "''", "NULL", "-", "1e400", "\0", "'\ud800'"))
        else:
            donor = _TOKEN.findall(rng.choice(others).decode("utf-8", "replace")) or [" "]
            begin = rng.randrange(len(donor))
            tokens[at : at + 1] = donor[begin : begin + rng.choice((1, 1, 3, 8))]
    return "".join(tokens).encode("utf-8", "surrogatepass")
