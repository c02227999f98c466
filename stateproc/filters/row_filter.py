"""Keep the rows of a batch for which a condition is true."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.filters.condition import SELECT, Node, WhereCondition, children, constant, is_null, sql_of, walk
from stateproc.filters.database import connection, duckdb_errors
from stateproc.filters.sql_columns import SqlNames, UnheldMoment, sql_column, unambiguous

ROWS, _ROW = "__rows", "__row"
_WHERE = f"SELECT {_ROW} FROM {ROWS} WHERE "
_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|INTEGER_LITERAL|DECIMAL|FLOAT|DOUBLE)\b")


@dataclass(frozen=True)
class RowFilter:
    """A condition over the columns of a schema.

    Attributes:
        condition: The parsed condition.
        schema: The schema of the batches, in which dates and times may be ISO text.
        temporal: The same schema with dates and times as Arrow's types.

    Raises:
        InvalidOption: The types in the condition do not fit each other, or it is not true or false.
    """

    condition: WhereCondition
    schema: pa.Schema
    temporal: pa.Schema

    def __post_init__(self) -> None:
        self._check_types()
        self.mask(self._no_rows)

    @property
    def _no_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        return batch.filter(self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return per row whether the condition is true. Raises InvalidOption for values that DuckDB refuses."""
        try:
            rows = self._run(f"{_WHERE}{self._sql}\n", batch).fetchnumpy()[_ROW]
        except UnheldMoment as error:
            if len(batch) < 2:
                raise InvalidOption(error.message, advice=error.advice) from error
            # Nanoseconds and years that are far away: each has a type, but both have none.
            middle = len(batch) // 2
            return pa.concat_arrays([self.mask(batch.slice(0, middle)), self.mask(batch.slice(middle))])
        kept = np.zeros(len(batch), dtype=np.bool_)
        kept[np.ma.getdata(rows)] = True
        return pa.array(kept)

    @cached_property
    def _names(self) -> SqlNames:
        return unambiguous(self.schema, self.condition.columns)

    @cached_property
    def _sql(self) -> str:
        """The condition as it was written, unless names in it differ by case alone."""
        if not self._names.renames:
            return self.condition.sql
        return sql_of(self._names.renamed(self.condition.tree)).removeprefix("SELECT ")

    def _run(self, query: str, batch: pa.RecordBatch) -> Any:
        columns = [
            sql_column(batch.column(name), self.temporal.field(name).type, name, numbered=self._names.renames)
            for name in self.condition.columns
        ]
        names = [self._names.column(name) for name in self.condition.columns]
        numbers = pa.array(np.arange(len(batch)))
        database = connection()
        try:
            database.register(ROWS, pa.Table.from_arrays([*columns, numbers], names=[*names, _ROW]))
            return database.execute(query)
        except duckdb_errors() as error:
            raise self._explained(error, query) from error

    def _explained(self, error: Exception, query: str) -> InvalidOption:
        """Convert DuckDB's error, which is JSON, to one that points into the condition."""
        text = str(error)
        try:
            found = json.loads(text[text.index("{") :])
        except ValueError:
            return self.condition.error_at(None, text.partition("\n")[0])
        position = found.get("position")
        is_written = position is not None and query.startswith(_WHERE) and not self._names.renames
        at = int(position) - len(_WHERE) + len(SELECT) if is_written else None
        return self.condition.error_at(at, str(found["exception_message"]).partition("\n")[0])

    def _check_types(self) -> None:
        """Refuse conditions that are not boolean, and text that DuckDB would round to compare it with a number."""
        comparisons = [node for node in walk(self.condition.tree) if _compares(node)]
        operands = [operand for node in comparisons for operand in _operands(node)]
        query = sql_of(*(self._names.renamed(node) for node in [self.condition.tree, *operands]))
        types = iter([row[1] for row in self._run(f"DESCRIBE {query} FROM {ROWS}", self._no_rows).fetchall()])
        kind = next(types)
        if kind != "BOOLEAN" and not is_null(self.condition.tree):
            raise self.condition.error(
                self.condition.tree, f"{kind} is not a boolean", "compare it with something, as in value.total >= 10"
            )
        for node in comparisons:
            found = [(operand, next(types)) for operand in _operands(node)]
            texts = [operand for operand, type_ in found if type_ == "VARCHAR" and constant(operand) is None]
            numbers = [type_ for operand, type_ in found if _NUMBERS.match(type_) and not is_null(operand)]
            if texts and numbers:
                raise self.condition.error(
                    node,
                    f"text is compared with a number ({numbers[0]})",
                    "convert it: CAST(… AS DECIMAL(38, 6)), or DOUBLE; text goes in 'single quotes'",
                )


def _compares(node: Node) -> bool:
    return node["class"] in ("COMPARISON", "BETWEEN") or node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN")


def _operands(node: Node) -> list[Node]:
    return list(children(node))
