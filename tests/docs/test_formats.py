"""Compare the constants, class names and class ids that docs/formats names with those in the code.

A row is a constant as `module:NAME` (dotted, to reach into an attribute) and its value as a Python literal:

    | `stateproc.metadata.reader:MAGIC` | `0x4960672D` | first four bytes |
"""

from __future__ import annotations

import ast
import re
from functools import reduce
from importlib import import_module
from typing import Any

import pytest

from tests.helpers.paths import ROOT

PAGES = sorted((ROOT / "docs/formats").glob("*.md"))
_ROW = re.compile(r"^\| `(?P<module>stateproc[\w.]*):(?P<name>[\w.]+)` \| `(?P<value>[^`]+)` \|", re.MULTILINE)
_ANY_CONSTANT = re.compile(r"`stateproc[\w.]*:[\w.]+`")


def rows(text: str) -> list[tuple[str, str, str]]:
    """Return module, name and value of each row."""
    return [(match["module"], match["name"], match["value"]) for match in _ROW.finditer(text)]


def in_code(module: str, name: str) -> Any:
    """Return the constant; enums and ranges as plain values."""
    value = reduce(getattr, name.split("."), import_module(module))
    return tuple(value) if isinstance(value, range | list) else value


ROWS = [(page.name, *row) for page in PAGES for row in rows(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "module", "name", "value"), ROWS)
def test_constants_are_those_of_the_code(page: str, module: str, name: str, value: str) -> None:
    assert in_code(module, name) == ast.literal_eval(value), f"docs/formats/{page}: {module}:{name}"


def test_every_named_constant_is_compared() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(_ANY_CONSTANT.findall(text)) == len(rows(text)), f"{page.name} has a row that no test reads"
    assert len(ROWS) > 20


def test_a_wrong_value_is_noticed() -> None:
    ((module, name, value),) = rows("| `stateproc.metadata.reader:MAGIC` | `0x4960672E` | wrong |")
    assert in_code(module, name) != ast.literal_eval(value)


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/formats/index.md").read_text(encoding="utf-8")
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert page.name == "index.md" or f"({page.name})" in index
        assert f"formats/{page.name}" in site


def snapshot_classes(text: str) -> set[str]:
    """Return the full names of the snapshot classes in the page's list; `~` is the class before `$`, with Snapshot."""
    (block,) = re.findall(r"```snapshots\n(.*?)```", text, re.DOTALL)
    package, names = "", set()
    for line in block.splitlines():
        if not line.startswith(" "):
            package = line
            continue
        for name in line.split():
            outer = name.removesuffix("$~")
            full = name if outer == name else f"{outer}${outer.split('$')[-1]}Snapshot"
            names.add(f"{package}.{full}")
    return names


def test_the_known_snapshot_classes_are_listed() -> None:
    listed = snapshot_classes((ROOT / "docs/formats/serializers.md").read_text(encoding="utf-8"))
    registered = in_code("stateproc.serializers.core.registry", "_READERS")
    import_module("stateproc.serializers.families")
    ours = {name for name in registered if name.startswith(("org.apache.flink.", "org.apache.flinkx."))}
    assert listed == ours


def test_scala_class_ids_are_those_of_the_reader() -> None:
    text = (ROOT / "docs/formats/kryo.md").read_text(encoding="utf-8")
    section = text[text.index("| Ids | Scala's classes") :].split("\n\n")[0]
    ranges = [(int(first), int(last)) for first, last in re.findall(r"^\| (\d+) – (\d+) \|", section, re.MULTILINE)]
    base, ids = (in_code("stateproc.codec.kryo.classes", name) for name in ("CHILL_BASE", "CHILL_IDS"))
    assert [number for first, last in ranges for number in range(first, last + 1)] == [*range(base, base + len(ids))]
    cells = re.findall(r"^\| (\d+) – \d+ \| ([\w$.]+)", section, re.MULTILINE)
    assert [ids[int(first) - base].endswith(name) for first, name in cells] == [True] * len(ranges)
