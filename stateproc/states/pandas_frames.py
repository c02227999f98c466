"""Convert Arrow tables to pandas without losing values: no integer or decimal becomes a float, no time is rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import InvalidOption

if TYPE_CHECKING:
    import pandas as pd

PANDAS_DTYPES = ("arrow", "nullable")


def check_dtypes(dtypes: str) -> None:
    """Raise InvalidOption for an unknown kind of dtypes."""
    if dtypes not in PANDAS_DTYPES:
        raise InvalidOption(f"option dtypes={dtypes!r}", advice=f"give one of {', '.join(PANDAS_DTYPES)}")


def to_frame(table: pa.Table, dtypes: str = "arrow") -> pd.DataFrame:
    """Convert a table to a DataFrame.

    Args:
        table: The rows.
        dtypes: ``arrow``: every column is Arrow-backed (``pandas.ArrowDtype``). ``nullable``: integers, floats,
            booleans and strings have pandas' own nullable types (``Int64``, ``Float64``, ``boolean``, ``string`` …);
            all other columns, which pandas has no exact type for, are Arrow-backed.

    Raises:
        InvalidOption: ``dtypes`` is neither.
    """
    check_dtypes(dtypes)
    import pandas as pd  # Lazy: slow to import

    mapper: Callable[[pa.DataType], Any] = pd.ArrowDtype if dtypes == "arrow" else _nullable_dtype
    frame: pd.DataFrame = table.to_pandas(types_mapper=mapper)
    return frame


def _nullable_dtype(type_: pa.DataType) -> Any:
    """Return pandas' nullable type for values of an Arrow type, or the Arrow-backed one where there is none."""
    import pandas as pd

    by_type: dict[pa.DataType, Any] = {
        pa.bool_(): pd.BooleanDtype(),
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.string(): pd.StringDtype(),
    }
    return by_type.get(type_) or pd.ArrowDtype(type_)
