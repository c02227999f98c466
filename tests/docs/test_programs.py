"""Every program of README, docs, tutorials, how-tos and recipes that needs Spark prints what its page shows.

They share one JVM, as its start and its first queries are most of the time that each would need alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stateproc.demo.bundled import copy_notebooks
from tests.helpers.document_runs import SECONDS, check_printed, environment, folder_of, program_of, uses_spark
from tests.helpers.markdown_fences import DOCUMENTS, GUIDES, ROOT
from tests.helpers.stores.object_store import object_store

_PAGES = [
    # Delta's jars are loaded when the JVM starts, so a page that needs them is the first.
    *sorted((page for page in GUIDES if program_of(page) is not None), key=lambda page: page.stem != "live-copy"),
    *(page for page in DOCUMENTS if uses_spark(page)),
]
_DEMO = "from tools.spark_demo import main\n\nmain()\n"
"""What `make demo` runs. It ends the session, so it is the last."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run all programs in one process, and return the file of each; the demo's name is `demo`."""
    snapshots = Path(copy_notebooks(tmp_path_factory.mktemp("bundled")).folder, "snapshots")
    files = {}
    for page in _PAGES:
        folder = folder_of(page, tmp_path_factory.mktemp(page.stem), snapshots if page in GUIDES else None)
        files[str(page)] = _written(folder, program_of(page) or "")
    files["demo"] = _written(tmp_path_factory.mktemp("demo"), _DEMO)
    runner = str(Path(__file__).with_name("run_programs.py"))
    command = [sys.executable, runner, *map(str, files.values())]
    with object_store() as store:
        store.upload(ROOT / "tests/fixtures/1.20/demo/snapshot", "savepoints/demo")
        variables = environment(store.environment)
        subprocess.run(command, env=variables, capture_output=True, timeout=2 * SECONDS, check=True)
    return files


def _written(folder: Path, program: str) -> Path:
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    return file


def _printed(program: Path) -> str:
    errors = program.with_suffix(".err")
    assert not errors.exists(), errors.read_text(encoding="utf-8")
    return program.with_suffix(".out").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_runs(page: Path, programs: dict[str, Path]) -> None:
    check_printed(page, _printed(programs[str(page)]))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("the catalog", "|orders-per-customer|spent-per-product|"),
        ("a POJO in value state", "|     298|          NULL|451.5|Elm street|"),
        ("one key", "|       29| 42|customer № 42|     3|"),
        ("map state", "|      180|20422.5|"),
        ("window contents", "2023-11-14 22:10:00|    12|   97.5|"),
        ("timers", "2023-11-15 22:13:20|user-timers|"),
        ("Kafka splits", "|shop.orders|        3|    15000845180|    90000000000|      1|"),
    ],
)
def test_the_demo_answers(question: str, answer: str, programs: dict[str, Path]) -> None:
    assert answer in _printed(programs["demo"]), question
