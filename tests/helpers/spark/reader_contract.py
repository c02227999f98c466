"""The data source as Spark's workers use it, in this process: plan, pickle, read, check the schema."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.sql.types import StructType

from stateproc.model.state import State
from stateproc.spark.reader import SavepointReader
from stateproc.spark.source import reader_of, schema_of
from stateproc.spark.types import arrow_schema
from tests.helpers.fixtures import CLASSES, Fixture

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


def selecting(state: State) -> dict[str, str]:
    """The source's options that select a state."""
    options = {"uidhash": state.operator.operator_id}
    if state.kind.endswith("timers"):
        return {**options, "timers": state.kind.split()[0]}
    return {**options, "state" if state.distribution == "keyed" else "operatorstate": state.name}


def selecting_exact(fixture: Fixture, state: State) -> dict[str, str]:
    """The source's options that select a state of a fixture, its values exact, its classes described."""
    uids = sorted({line["uid"] for line in fixture.expected() if line["uid"]})
    common = {"uids": ",".join(uids), "temporal": "exact", "classes": json.dumps(CLASSES)}
    if fixture.manifest.get("key_type"):
        common["keyType"] = fixture.manifest["key_type"]
    return {"path": fixture.snapshot, **common, **selecting(state)}


def planned(
    options: dict[str, str], schema: StructType | None = None, filters: Sequence[Filter] = ()
) -> SavepointReader:
    """The reader after ``filters`` were pushed to it, as pickled to the tasks."""
    reader = reader_of(options, schema or schema_of(options))
    if filters:
        assert reader.pushFilters(list(filters)) == list(filters)
    return pickle.loads(dumps(reader))


def rows(options: dict[str, str], schema: StructType | None = None, filters: Sequence[Filter] = ()) -> pa.Table:
    """All rows, each batch checked as Spark checks the first."""
    struct = schema or schema_of(options)
    wanted = arrow_schema(struct)
    reader = planned(options, struct, filters)
    batches = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(dumps(partition))):
            assert wanted.equals(batch.schema)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema=wanted)
