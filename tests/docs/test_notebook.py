"""Every notebook runs from beginning to end on its bundled snapshot, and shows tables and pictures."""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.helpers.document_runs import environment
from tests.helpers.paths import ROOT

FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
ORDER = sorted(NAMES, key=lambda name: name != "delta")
"""Delta's jars are loaded when the JVM starts, so the notebook that needs them is the first."""


class ExecutedNotebook:
    """What a notebook showed, and its error if it has one."""

    def __init__(self, cells: list[Any], error: str | None) -> None:
        self.error = error
        self.outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
        self.printed = "".join(
            output.get("text", "") for cell in cells for output in cell.get("outputs", []) if "text" in output
        )

    def shown(self, media_type: str) -> list[str]:
        """Return the outputs of a media type."""
        return [str(data[media_type]) for data in self.outputs if media_type in data]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ExecutedNotebook]:
    """Run all notebooks in one kernel, so that they share one Spark session; each begins without variables."""
    found = {}
    folder = tmp_path_factory.mktemp("notebooks")
    with _environment(), _kernel(folder) as kernel:
        for name in ORDER:
            notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
            notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
            client = NotebookClient(notebook, km=kernel, timeout=300, resources={"metadata": {"path": str(folder)}})
            error = None
            try:
                client.execute(reset_kc=True, cleanup_kc=False)
            except CellExecutionError as problem:
                error = str(problem)
            assert client.kc is not None
            client.kc.stop_channels()
            found[name] = ExecutedNotebook(notebook.cells, error)
    return found


@contextmanager
def _environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update({**environment(), "PYSPARK_DRIVER_PYTHON": sys.executable})
    yield
    os.environ.clear()
    os.environ.update(before)


@contextmanager
def _kernel(folder: Path) -> Iterator[KernelManager]:
    """Start a kernel that is reached by Unix sockets, whose paths have at most 107 characters.

    Clients of a TCP port connect to it again and again, also when the kernel has gone and Spark listens there: its
    `collect` of other tests fails then, with a NegativeArraySizeException.
    """
    with tempfile.TemporaryDirectory() as sockets:
        kernel = KernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        kernel.start_kernel(cwd=str(folder))
        try:
            yield kernel
        finally:
            kernel.shutdown_kernel(now=True)


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, executed: dict[str, ExecutedNotebook]) -> None:
    assert executed[name].error is None


@pytest.mark.parametrize(
    ("name", "pictures", "answer"),
    [
        ("inspect", 1, "spent-per-product"),
        ("compare", 1, "update_postimage"),
        ("skew", 1, "largest_to_mean"),
        ("kafka-offsets", 1, "10000845180"),
        ("sql-state", 0, "Rank"),
        ("ttl", 1, "TTL "),
        ("change-a-query", 0, "GroupAggregate[13] as GroupAggregate[31]"),
        ("bootstrap", 0, "orders-source"),
        ("delta", 0, "DELETE"),
        ("live-copy", 1, "_commit_version"),
        ("migrate-backend", 0, "native-rocksdb"),
    ],
)
def test_it_shows(name: str, pictures: int, answer: str, executed: dict[str, ExecutedNotebook]) -> None:
    shown = executed[name]
    assert len(shown.shown("image/png")) == pictures
    assert answer in "".join(shown.shown("text/html")) + shown.printed


def test_the_copy_has_as_many_rows_as_the_state(executed: dict[str, ExecutedNotebook]) -> None:
    found = re.search(r"(\d+) rows in the table, (\d+) in the state", executed["live-copy"].printed)
    assert found is not None and found[1] == found[2] != "0"


def test_the_new_query_has_all_rows(executed: dict[str, ExecutedNotebook]) -> None:
    assert "would begin without state" in executed["change-a-query"].printed
    assert "7 rows before, 7 after" in executed["change-a-query"].printed


def test_the_formats_have_the_same_rows(executed: dict[str, ExecutedNotebook]) -> None:
    (table,) = [html for html in executed["migrate-backend"].shown("text/html") if "<th>equal</th>" in html]
    assert "True" in table and "False" not in table


@pytest.mark.parametrize("name", NAMES)
def test_it_takes_a_path_and_imports_nothing_private(name: str) -> None:
    cells = [cell.source for cell in nbformat.read(FOLDER / f"{name}.ipynb", 4).cells if cell.cell_type == "code"]
    assert cells[0].startswith("PATH = None")
    for node in (node for source in cells for node in ast.walk(ast.parse(source))):
        modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not [module for module in modules if str(module).startswith("stateproc.")]
