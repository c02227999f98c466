"""Keep the rows of a batch for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc.filters.evaluator import Evaluator
from stateproc.filters.parser import WhereCondition


@dataclass(frozen=True)
class RowFilter:
    """A condition over the columns of a schema.

    Attributes:
        condition: The parsed condition.
        schema: The schema of the batches, in which dates and times may be ISO text.
        temporal: The same schema with dates and times as Arrow's types.

    Raises:
        InvalidOption: The condition names a column or calls a function that does not exist, or types do not fit.
    """

    condition: WhereCondition
    schema: pa.Schema
    temporal: pa.Schema

    def __post_init__(self) -> None:
        self.mask(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which the condition is true."""
        return batch.filter(self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return true, false or null per row."""
        try:
            result = Evaluator(self.condition, batch, self.temporal).truth_values(self.condition.tree)
        except RecursionError:
            raise self.condition.error(self.condition.tree, "the condition is nested too deeply") from None
        return pa.array([result.as_py()] * len(batch), pa.bool_()) if isinstance(result, pa.Scalar) else result
