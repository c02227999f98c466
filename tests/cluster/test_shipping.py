"""The recipes of docs/howto/clusters.md: executors have the package by what is shipped, or from read-only files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import stateproc
from stateproc.demo.bundled import bundled_snapshot
from tests.helpers.document_runs import write_files
from tests.helpers.markdown_fences import blocks
from tests.helpers.paths import ROOT
from tests.helpers.spark.cluster_commands import Ran, contents, ran, settings
from tests.helpers.spark.standalone_cluster import Cluster, standalone_cluster
from tests.helpers.stores.object_store import BUCKET, Store, object_store

PAGE = ROOT / "docs/howto/clusters.md"
PACKED, WHEEL, INSTALLED = (text for _, text in blocks(PAGE, "sh"))
(MAIN,) = (text for _, text in blocks(PAGE, "py"))
UID = "orders-per-customer"
_SECONDS = 900
"""An environment is installed and packed."""


@dataclass(frozen=True)
class Site:
    """A user's directory with a wheel, and a cluster whose nodes have nothing of this project.

    Attributes:
        folder: The directory.
        wheel: The wheel of this tree.
        temporary: Where the nodes' temporary files are.
        variables: The environment of the user's shell.
    """

    folder: Path
    wheel: Path
    temporary: Path
    cluster: Cluster
    store: Store
    variables: Mapping[str, str]

    @property
    def python(self) -> Path:
        """The interpreter of the environment that the first recipe makes."""
        return self.folder / "environment" / "bin" / "python"

    def run(self, recipe: str, name: str, more: Mapping[str, str] | None = None) -> Ran:
        """Run commands of the page, with the wheel of this tree in place of a released one.

        Args:
            recipe: The commands.
            name: The directory of the savepoint.
            more: Further variables of the environment.
        """
        replaced = {
            "'stateproc[s3,jobs,pandas]'": f"'{self.wheel}[s3,jobs,pandas]'",
            "pip download --no-deps --dest . stateproc": f"cp {self.wheel} .",
            "/opt/flink-state": f"{self.folder}/environment",
            "run rescale.yaml": f"run rescale.yaml --set run_id={name}",
        }
        for released, here in replaced.items():
            recipe = recipe.replace(released, here)
        done = ran(["bash", "-euc", recipe], self.folder, {**self.variables, **(more or {})}, most=_SECONDS)
        print(name, done.status, round(done.seconds, 1), "seconds")
        return done

    def check_written(self, name: str, done: Ran) -> None:
        """Check the savepoint that a recipe has written."""
        assert done.status == 0, done.err[-4000:] + done.out[-2000:]
        target = f"s3://{BUCKET}/rescaled/{name}"
        pointer = self.store.client.get_object(Bucket=BUCKET, Key="rescaled/latest")["Body"].read().decode()
        assert pointer == f"{target}\n"
        found = contents(target, self.store.options, UID)
        assert rows(found) == rows(contents(f"s3://{BUCKET}/savepoints/shop", self.store.options, UID))
        assert stateproc.open(target, storage_options=self.store.options).operators[0].max_parallelism == 512


def rows(tables: Mapping[str, pa.Table]) -> dict[str, dict[Any, Any]]:
    """The values by state and key; the entries of a map have no order."""
    return {
        name: {
            row["key"]: sorted(row["value"]) if isinstance(row["value"], list) else row["value"]
            for row in table.to_pylist()
        }
        for name, table in tables.items()
    }


def tree(folder: Path) -> dict[str, float]:
    """The files below a directory, with the times of their last changes."""
    return {str(path): path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder / "dist"), "."], cwd=ROOT, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    write_files(PAGE, folder)
    (folder / "main.py").write_text(MAIN)
    (folder / "conf").mkdir()
    lines = [part.replace("=", " ", 1) for part in settings() if part != "--conf"]
    (folder / "conf" / "spark-defaults.conf").write_text("\n".join(lines))
    (folder / "temporary").mkdir()
    with object_store() as store:
        store.upload(Path(bundled_snapshot("shop")), "savepoints/shop")
        nodes = {
            **store.environment,
            "PYTHONPATH": "",
            "HOME": "",
            "XDG_CACHE_HOME": "",
            "STATEPROC_CACHE_DIR": "",
            "TMPDIR": str(folder / "temporary"),
        }
        with standalone_cluster(folder / "cluster", dict.fromkeys(("127.0.0.2", "127.0.0.3"), nodes)) as cluster:
            variables = {
                **store.environment,
                "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
                "HOME": str(Path.home()),
                "MASTER": cluster.url,
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
                "SPARK_CONF_DIR": str(folder / "conf"),
            }
            yield Site(folder, wheel, folder / "temporary", cluster, store, variables)


@pytest.fixture(scope="module")
def packed(site: Site) -> Ran:
    """Run the first recipe, which makes the environment of the others."""
    return site.run(PACKED, "packed")


@pytest.fixture(scope="module")
def driver(site: Site, packed: Ran) -> dict[str, str]:
    """Leave of the environment what the package depends on, for the nodes; return that of a driver with the package."""
    assert packed.status == 0, packed.err[-2000:] + packed.out[-2000:]
    subprocess.run([site.python, "-I", "-m", "pip", "uninstall", "--quiet", "--yes", "stateproc"], check=True)
    return {"PYSPARK_PYTHON": str(site.python), "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


def test_a_packed_environment(site: Site, packed: Ran) -> None:
    site.check_written("packed", packed)


def test_nothing_is_shipped(site: Site, driver: dict[str, str]) -> None:
    done = site.run('spark-submit --master "$MASTER" main.py run rescale.yaml', "nothing", driver)
    assert done.status == 2 and "Traceback" not in done.printed
    assert "cannot import stateproc (No module named 'stateproc')" in done.printed
    assert site.store.names("rescaled/nothing") == []


def test_the_wheel_as_an_archive(site: Site, driver: dict[str, str]) -> None:
    site.check_written("archive", site.run(WHEEL, "archive", driver))


def test_the_wheel_among_python_files(site: Site, driver: dict[str, str]) -> None:
    """It works slowly where numba is, and a warning says so."""
    subprocess.run([site.python, "-I", "-m", "pip", "install", "--quiet", "numba"], check=True)
    cache = f"--conf spark.executorEnv.STATEPROC_CACHE_DIR={site.temporary}/kernels"
    line = f'cp {site.wheel} files.zip; spark-submit --master "$MASTER" --py-files files.zip {cache}'
    done = site.run(f"{line} main.py run rescale.yaml", "files", driver)
    site.check_written("files", done)
    assert "import stateproc from a ZIP file (--py-files), without its compiled kernels" in done.printed


def test_read_only_files_without_home_and_caches(site: Site, driver: dict[str, str]) -> None:
    """Permissions do not stop root, so the test looks for what the nodes have written."""
    subprocess.run([site.python, "-I", "-m", "pip", "install", "--quiet", "--no-deps", str(site.wheel)], check=True)
    for path in (site.folder / "environment").rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    files, temporary = tree(site.folder / "environment"), set(site.temporary.glob("stateproc-*"))
    site.check_written("installed", site.run(INSTALLED, "installed"))
    assert tree(site.folder / "environment") == files
    assert set(site.temporary.glob("stateproc-*")) == temporary
