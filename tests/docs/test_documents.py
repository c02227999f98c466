"""Every command of README and docs, and every program without Spark, does what the document says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.command_server import command_server
from tests.helpers.document_runs import (
    SECONDS,
    check_commands,
    check_printed,
    environment,
    folder_of,
    program_of,
    uses_spark,
)
from tests.helpers.markdown_fences import DOCUMENTS, GUIDES, ROOT
from tests.helpers.stores.object_store import Store, object_store

_NAMES = [str(document.relative_to(ROOT)) for document in DOCUMENTS]
_PROGRAMS = [document for document in DOCUMENTS if program_of(document) is not None and not uses_spark(document)]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """What documents call s3://flink."""
    with object_store() as made:
        made.upload(ROOT / "tests/fixtures/1.20/demo/snapshot", "savepoints/demo")
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which commands are forks of one process."""
    with command_server(tmp_path_factory.mktemp("commands")) as variables:
        yield variables


@pytest.mark.parametrize("document", DOCUMENTS, ids=_NAMES)
def test_commands_print_what_is_shown(document: Path, tmp_path: Path, store: Store, server: dict[str, str]) -> None:
    """Those of the README by the installed program itself."""
    variables = store.environment | ({} if document.name == "README.md" else server)
    check_commands(document, folder_of(document, tmp_path), variables)


@pytest.mark.parametrize("document", _PROGRAMS, ids=lambda document: str(document.relative_to(ROOT)))
def test_python_runs(document: Path, tmp_path: Path, store: Store) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program_of(document) or ""],
        cwd=folder_of(document, tmp_path),
        env=environment(store.environment),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{document.name}\n{done.stdout}\n{done.stderr}"
    check_printed(document, done.stdout)


def test_links_lead_somewhere() -> None:
    for document in [*DOCUMENTS, *GUIDES]:
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
