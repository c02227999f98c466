"""Trees of Arrow types."""

from __future__ import annotations

import pyarrow as pa

from stateproc.html.cards import TypeNode, type_tree


def test_nested_types_are_trees() -> None:
    schema = pa.schema([("key", pa.int64()), ("value", pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int8())]))))])
    assert type_tree(schema) == (
        TypeNode("key", "int64"),
        TypeNode(
            "value",
            "map",
            (
                TypeNode("key", "string"),
                TypeNode("value", "list", (TypeNode("element", "struct", (TypeNode("x", "int8"),)),)),
            ),
        ),
    )


def _size(node: TypeNode) -> int:
    return 1 + sum(map(_size, node.children))


def test_deep_and_wide_types_are_cut() -> None:
    deep = pa.int8()
    for _ in range(100):
        deep = pa.struct([("a", deep)])
    wide = pa.struct([(f"f{number}", pa.struct([("x" * 50, pa.int8())] * 20)) for number in range(300)])
    for type_ in (deep, wide):
        (node,) = type_tree(pa.schema([("v", type_)]))
        assert _size(node) <= 400
