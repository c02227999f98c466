"""Random conditions on the columns ``key`` and ``key_group`` of real rows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa


class KeyConditions:
    """Makes conditions whose literals are mostly keys that rows have.

    Args:
        seed: Of the random numbers.
        rows: The rows, with the columns ``key`` and ``key_group``.
    """

    def __init__(self, seed: int, rows: pa.Table) -> None:
        self._chance = random.Random(seed)
        self._type = rows.schema.field("key").type
        self._keys = rows["key"].to_pylist() or [None]
        self._groups = rows["key_group"].to_pylist() or [0]

    def condition(self, depth: int = 2) -> str:
        """Return a condition with at most ``depth`` levels of operators of logic."""
        kind = self._chance.randrange(8) if depth else 7
        if kind < 3:
            return f"({self.condition(depth - 1)}) {'OR' if kind else 'AND'} ({self.condition(depth - 1)})"
        if kind == 3:
            return f"NOT ({self.condition(depth - 1)})"
        if kind == 4:
            return f"({self.condition(depth - 1)}) IS {self._pick('', 'NOT ')}{self._pick('TRUE', 'NULL')}"
        return self._on_group() if self._chance.random() < 0.2 else self._on_key("key", self._type, self._keys)

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _on_group(self) -> str:
        a, b = self._chance.choice(self._groups), self._chance.choice(self._groups)
        return self._pick(
            f"key_group = {a}", f"KEY_GROUP IN ({a}, {b}, NULL)", f"key_group BETWEEN {a} AND {b}", f"{a} = key_group",
            f"key_group % 3 = {a % 3}", f"NOT key_group < {a}", f"key_group <> {a}", f"key_group = {a}.0 IS NULL",
        )  # fmt: skip

    def _on_key(self, name: str, type_: pa.DataType, values: list[Any]) -> str:
        if pa.types.is_struct(type_):
            row = self._chance.choice(values)
            parts = [
                self._on_key(f"{name}.{self._spelled(field.name)}", field.type, [row[field.name]]) for field in type_
            ]
            used = parts[: self._chance.choice([1, len(parts), len(parts)])]
            return f"({' AND '.join(used)})"
        a, b = (self._literal(self._chance.choice(values), type_) for _ in range(2))
        name = self._spelled(name) if "." not in name else name
        return self._pick(
            *[f"{name} = {a}"] * 4, f"{a} = {name}", *[f"{name} IN ({a}, {b})"] * 3, f"{name} IN ({a}, NULL)",
            f"({name}) = ({a})", f"{name} = {a} AND {name} = {b}", f"{name} = {a} AND {name} IS NOT NULL",
            f"{name} IS NOT DISTINCT FROM {a}", f"{name} BETWEEN {a} AND {b}", f"{name} <= {a}", f"{name} <> {a}",
            f"{name} NOT IN ({a}, {b})", f"{name} IS NULL", f"coalesce({name}, {b}) = {a}", f"{name} = {a} IS TRUE",
            f"CASE WHEN {name} = {a} THEN {name} = {a} ELSE {name} = {b} END",
        )  # fmt: skip

    def _spelled(self, name: str) -> str:
        return self._pick(name, name, name.upper(), f'"{name}"')

    def _literal(self, value: Any, type_: pa.DataType) -> str:
        if value is None:
            return "NULL" if pa.types.is_null(type_) else "'none'" if pa.types.is_string(type_) else "0"
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, int):
            return self._pick(str(value), str(value), f"{value}.0", f"{value}e0", f"CAST({value} AS BIGINT)")
        return "'" + str(value).replace("'", "''") + "'"
