"""Make a skeleton of class descriptions: the classes that need one, to be completed with their fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from stateproc.verification.class_mentions import MentionedClass, Readability
from stateproc.verification.problem import Problem

Skeleton = Mapping[str, dict[str, str] | list[str] | str]
"""Class name → fields and their types, constants, or what a collection holds: the form of ``--classes``."""

FIELDS: dict[str, str] = {"fieldName": "type"}
"""Stands for fields. It is refused as a description, so that nothing is read before it has been replaced."""
CONSTANTS: list[str] = ["FIRST", "SECOND"]
_DESCRIBE = re.compile(
    r"describe it.*?classes=\{(?P<quote>[\"'])(?P<name>.+?)(?P=quote): (?P<body>[\[{]|\"[^\"]+\")", re.DOTALL
)
"""What the advice of errors says about classes without a description, whatever reads them."""


def class_skeleton(mentioned: Iterable[MentionedClass], problems: Iterable[Problem] = ()) -> Skeleton:
    """Return the classes that need a description.

    Args:
        mentioned: The classes that serializers mention.
        problems: The problems of reading values, which name further classes.
    """
    found: dict[str, dict[str, str] | list[str] | str] = {}
    for item in mentioned:
        if item.readability is Readability.IF_DESCRIBED:
            found[_component(item.class_name)] = dict(FIELDS)
    for problem in problems:
        for match in _DESCRIBE.finditer(problem.advice):
            found.setdefault(_component(match["name"]), _body(match["body"]))
    return dict(sorted(found.items()))


def _body(begins: str) -> dict[str, str] | list[str] | str:
    """Return what stands for a description that an advice begins."""
    if begins.startswith('"'):
        return begins.strip('"')
    return dict(FIELDS) if begins == "{" else list(CONSTANTS)


def _component(class_name: str) -> str:
    """Return the class itself where the name is that of an array of it."""
    if not class_name.startswith("["):
        return class_name
    return class_name.lstrip("[").removeprefix("L").removesuffix(";")
