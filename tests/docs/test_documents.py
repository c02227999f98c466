"""Every command and snippet of README and docs does what the document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.flink.jars import cache
from tests.helpers.markdown_fences import DOCUMENTS, ROOT, blocks, commands, matches
from tests.helpers.stores.object_store import Store, object_store

_NAMES = [str(document.relative_to(ROOT)) for document in DOCUMENTS]
_SECONDS = 600
_SPARK = ("spark.jars.ivySettings", ROOT / "tests/docs/ivysettings.xml"), ("spark.jars.ivy", cache() / "ivy")
"""Where Spark has packages from; some local Maven repositories have project files without their jars."""


def _environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "140",
        "PYTHONUNBUFFERED": "",  # as in a user's shell; some images set it, which hides what is not flushed
        "PYSPARK_SUBMIT_ARGS": " ".join([*(f"--conf {name}={value}" for name, value in _SPARK), "pyspark-shell"]),
        **(extra or {}),
    }


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    """A folder in which ``tests/`` is found and files can be written."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    return tmp_path


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """What documents call s3://flink."""
    with object_store() as made:
        made.upload(ROOT / "tests/fixtures/1.20/demo/snapshot", "savepoints/demo")
        yield made


@pytest.mark.parametrize("document", DOCUMENTS, ids=_NAMES)
def test_commands_print_what_is_shown(document: Path, folder: Path, store: Store) -> None:
    variables: dict[str, str] = dict(store.environment)
    for command in commands(document):
        assigned = re.fullmatch(r"(\w+)=(\S+)", command.line)
        if assigned:
            variables[assigned[1]] = assigned[2]
            continue
        done = subprocess.run(
            ["bash", "-c", f"{command.line} 2>&1"],
            cwd=folder,
            env=_environment(variables),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        place = f"{document.name}:{command.at}"
        assert "Traceback" not in done.stdout, f"{place}\n{done.stdout}"
        assert matches(command.output, done.stdout), f"{place} prints\n{done.stdout}\nand not\n{command.output}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=_NAMES)
def test_python_runs(document: Path, folder: Path, store: Store) -> None:
    # What imports is a program, block by block; a document without any import shows fragments.
    snippets = blocks(document, "python")
    if any(re.search(r"^(import|from) ", text, re.MULTILINE) for _, text in snippets):
        program = "\n".join("\n" * 2 + text for _, text in snippets)
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env=_environment(store.environment),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{document.name}\n{done.stdout}\n{done.stderr}"
        for shown in blocks(document, "text"):
            assert matches("…" + shown[1] + "…", done.stdout), f"{document.name}:{shown[0]} prints\n{done.stdout}"


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
