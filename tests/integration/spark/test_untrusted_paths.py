"""Files outside of a checkpoint root in Spark, and credentials in plans."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

import stateproc
from stateproc.errors import UntrustedPath
from tests.helpers.damage.foreign_files import foreign_copy
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.paths import DEMO

OPERATOR = "kitchen-string"
SECRET = "hunter22-is-secret"
NOWHERE = {"fs.endpoint_url": "http://127.0.0.1:9", "fs.config_kwargs": '{"retries": {"max_attempts": 0}}'}


@pytest.fixture(scope="module")
def fixture() -> Fixture:
    return next(item for item in fixtures() if item.name == "1.20/kitchen-rocksdb-incremental")


def test_a_file_outside_is_read_and_copied_only_if_it_is_allowed(
    spark: SparkSession, fixture: Fixture, tmp_path: Path
) -> None:
    directory, outside = foreign_copy(fixture, tmp_path, "rocksdb shared")
    reader = spark.read.format("savepoint").options(uids=OPERATOR, uid=OPERATOR, state="profile")
    with pytest.raises((AnalysisException, PythonException), match=f"(?s)outside of.*--allow-root {outside}"):
        reader.load(str(directory)).count()
    allowed = reader.option("allowedRoots", str(outside)).load(str(directory))
    assert allowed.count() == reader.load(fixture.snapshot).count() > 0

    with pytest.raises((UntrustedPath, PythonException), match="outside of"):
        stateproc.SavepointWriter.from_existing_savepoint(spark, directory).write(tmp_path / "refused")
    assert not (tmp_path / "refused" / "_metadata").exists()
    options = {"allowedRoots": str(outside)}
    stateproc.SavepointWriter.from_existing_savepoint(spark, directory, options).write(tmp_path / "copied")
    assert (tmp_path / "copied" / "_metadata").exists()


def test_plans_and_views_show_no_credentials(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = {"fs.key": "id", "fs.secret": SECRET, "fs.client_kwargs": f'{{"aws_session_token": "{SECRET}"}}'}
    frame = spark.read.format("savepoint").options(
        **options, uids="orders-per-customer", uid="orders-per-customer", state="profile"
    )
    loaded = frame.load(str(DEMO))
    loaded.explain("extended")
    views = stateproc.attach(spark, str(DEMO), uids="orders-per-customer", **options)
    spark.sql(f"SELECT * FROM `{views.names[0]}`").explain("extended")
    shown = [capsys.readouterr().out, repr(loaded), repr(views), *map(repr, views), views._repr_html_()]
    assert "Relation" in shown[0]
    assert SECRET not in "\n".join(shown)
    with pytest.raises(AnalysisException) as caught:
        frame.options(**NOWHERE).load("s3://bucket/x").schema  # noqa: B018  (plans)
    assert SECRET not in str(caught.value)
