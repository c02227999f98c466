"""New state from pandas frames, whatever types pandas 2 and 3 choose for text and times."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stateproc import OperatorBootstrap
from tests.unit.writers.local.test_arrow_bootstrap import column, rows, written

TEXTS = ["tea", "", None, "nåme", "\U0001f375"]
MOMENTS = [dt.datetime(2024, 2, 29, 12, 30, 5), dt.datetime(1969, 12, 31, 23, 59, 59), None]


def test_a_frame_of_pyarrow_keeps_every_value(tmp_path: Path) -> None:
    table = rows().select(["key", "value", "space"])
    frame = table.to_pandas()
    state = OperatorBootstrap().value_state("v", frame).map_state("m", frame, map_key="space", map_value="value")
    found = written(tmp_path / "s", ("op", state))
    assert column(found, "v") == table["value"].to_pylist()
    assert column(found, "m") == [[(key % 7, text)] for key, text in enumerate(table["value"].to_pylist())]


@pytest.mark.parametrize("dtype", [None, "object", "string", "string[python]", "string[pyarrow]"])
def test_text(dtype: Any, tmp_path: Path) -> None:
    """Without a type it is object in pandas 2 and str in pandas 3."""
    frame = pd.DataFrame({"key": range(len(TEXTS)), "value": pd.Series(TEXTS, dtype=dtype)})
    found = written(tmp_path / "s", ("op", OperatorBootstrap().value_state("v", frame.dropna())))
    assert column(found, "v") == [text for text in TEXTS if text is not None]


@pytest.mark.parametrize("unit", [None, "s", "ms", "us", "ns"])
def test_times(unit: Any, tmp_path: Path) -> None:
    """Without a unit they have nanoseconds in pandas 2, and microseconds in pandas 3."""
    times = pd.Series(pd.to_datetime(pd.Series(MOMENTS)))
    frame = pd.DataFrame({"key": range(len(MOMENTS)), "value": times if unit is None else times.dt.as_unit(unit)})
    found = written(tmp_path / "s", ("op", OperatorBootstrap().value_state("v", frame.dropna())))
    assert column(found, "v") == [moment for moment in MOMENTS if moment is not None]
