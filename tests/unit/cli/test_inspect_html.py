"""``inspect --html``: the file, what goes with it, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stateproc.cli import main
from tests.helpers.paths import DEMO, FIXTURES, python_environment

UIDS = "orders-from-kafka,orders-per-customer,revenue-per-product"


@pytest.fixture()
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    def runner(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return runner


def test_the_page_shows_what_the_report_contains(run: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, out, err = run("inspect", str(DEMO), "--uids", UIDS, "--html", str(page))
    assert (status, out) == (0, "")
    assert err.startswith(f"{page}: ") and err.endswith(" KiB\n")
    text = page.read_text(encoding="utf-8")
    report = json.loads(run("inspect", str(DEMO), "--uids", UIDS, "--json")[1])
    for operator in report["operators"]:
        assert operator["uid"] in text and operator["uid_hash"] in text
        for state in operator["states"]:
            assert state["name"] in text
    for shown in ("15000845180", "2023-11-15 22:13", "street", "none found", "Canonical savepoint 1"):
        assert shown in text
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_it_goes_to_stdout_or_with_json(run: Any, tmp_path: Path) -> None:
    status, out, _ = run("inspect", str(DEMO), "--html", "-")
    assert status == 0 and out.startswith("<!doctype html>") and out.rstrip().endswith("</html>")
    status, out, _ = run("inspect", str(DEMO), "--html", str(tmp_path / "a.html"), "--json")
    assert status == 0 and json.loads(out)["kind"] == "canonical savepoint"
    assert (tmp_path / "a.html").exists()


def test_one_operator(run: Any, tmp_path: Path) -> None:
    run("inspect", str(DEMO), "--uid", "revenue-per-product", "--html", str(tmp_path / "a.html"))
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "window-contents" in text and "spent-per-product" not in text


def test_rocksdb_and_last_accesses(run: Any, tmp_path: Path) -> None:
    path = FIXTURES / "1.20/kitchen-rocksdb-incremental/snapshot"
    assert run("inspect", str(path), "--html", str(tmp_path / "a.html"))[0] == 0
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert 'id="rocksdb"' in text and "L0:2" in text and "Snappy" in text
    assert 'id="ttl"' in text and "before the newest access" in text


def test_what_cannot_be_written_is_an_error(run: Any, tmp_path: Path) -> None:
    status, _, err = run("inspect", str(DEMO), "--html", str(tmp_path / "missing" / "a.html"))
    assert status != 0 and "cannot be written" in err
    status, _, err = run("inspect", str(DEMO), "--html", str(tmp_path / "a.html"), "--rocksdb")
    assert status == 2 and "without --rocksdb" in err


@pytest.mark.processes
def test_templates_are_imported_for_the_page_only() -> None:
    inspect = f"from stateproc.cli import main; main(['inspect', {str(DEMO)!r}])"
    program = f"import sys; {inspect}; print('jinja2' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=python_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"
