"""The notebook runs from beginning to end, and shows tables and pictures."""

from __future__ import annotations

import os
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.paths import ROOT


@pytest.fixture(scope="module")
def outputs() -> list[dict[str, object]]:
    """The data of all outputs of an executed copy, by media type."""
    notebook = nbformat.read(ROOT / "notebooks/inspect.ipynb", as_version=4)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    return [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]


def test_it_shows_three_plots(outputs: list[dict[str, object]]) -> None:
    assert sum("image/png" in data for data in outputs) == 3


def test_it_shows_the_catalog_the_offsets_and_an_answer_in_sql(outputs: list[dict[str, object]]) -> None:
    tables = [str(data["text/html"]) for data in outputs if "text/html" in data]
    assert "spent-per-product" in tables[0]
    assert "10000845180" in tables[1]
    assert "customers" in tables[-1] and "150" in tables[-1]
