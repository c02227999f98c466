"""Measure the codec, reads, memory and look-ups, each compared with a named reference of the same run.

    python -m benchmarks.bench codec
    python -m benchmarks.bench spark SNAPSHOT       # of tests.helpers.flink.make_fixtures --big KEYS --out DIR
    python -m benchmarks.bench memory SNAPSHOT      # … [--incremental]
    python -m benchmarks.bench lookup SNAPSHOT

Ratios count, not seconds: run nothing else beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

_ROWS, _BATCH = 2_000_000, 1 << 16
_UID, _STATE = "big", "profile"
_ROUNDS = 40


def codec() -> dict[str, float]:
    """The codec alone, both ways, on records of POJO(String of 20, long, double), one core; beside it a copy of the
    bytes."""
    from stateproc.codec.machine import ValueDecoder
    from stateproc.serializers.core.base import LayoutContext
    from stateproc.serializers.java.scalars import SCALARS, Scalar
    from stateproc.serializers.pojo.serializer import Pojo

    scalars = {row[0]: Scalar(*row) for row in SCALARS}
    pojo = Pojo("Customer", (("amount", scalars["Double"]), ("name", scalars["String"]), ("visits", scalars["Long"])))
    name = b"\x15" + b"customer-00000000001"
    record = b"\x02\x00" + struct.pack(">d", 1.5) + b"\x00" + name + b"\x00" + struct.pack(">q", 7)
    data = np.frombuffer(record * _ROWS, dtype=np.uint8)
    starts = np.arange(_ROWS, dtype=np.int64) * len(record)
    layout = pojo.layout(LayoutContext())
    decoder = ValueDecoder(layout)
    batch = decoder.decode(data, starts[:_BATCH], starts[:_BATCH] + len(record))

    def decode() -> None:
        for at in range(0, _ROWS, _BATCH):
            part = starts[at : at + _BATCH]
            decoder.decode(data, part, part + len(record))

    def encode() -> None:
        for at in range(0, _ROWS, _BATCH):
            layout.encode(batch.slice(0, min(_BATCH, _ROWS - at)))

    assert layout.encode(batch).data.tobytes() == record * len(batch)
    decode()
    seconds, encoding, copying = best(decode), best(encode), best(lambda: data.copy())
    return {
        "rows per second": _ROWS / seconds,
        "of the speed of a memory copy": copying / seconds,
        "encoding, rows per second": _ROWS / encoding,
        "encoding, of the speed of a memory copy": copying / encoding,
    }


def best(action: Callable[[], Any], times: int = 5) -> float:
    """The least CPU time of several runs, in seconds."""
    found = []
    for _ in range(times):
        begin = time.process_time()
        action()
        found.append(time.process_time() - begin)
    return min(found)


def spark(path: str) -> dict[str, float]:
    """A Spark noop read of a snapshot beside prebuilt Arrow batches of the same rows through the same source."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    import stateproc

    table = stateproc.open(path).state(_UID, _STATE)
    directory = tempfile.mkdtemp()
    files = []
    for index, split in enumerate(table.splits()):
        file = f"{directory}/{index}.arrow"
        schema = pa.schema([field.with_nullable(True) for field in table.schema()])
        with pa.ipc.new_file(file, schema) as writer:
            for batch in split.read():
                writer.write_batch(batch.cast(schema))
        files.append(file)

    class Prebuilt(DataSource):
        @classmethod
        def name(cls) -> str:
            return "prebuilt"

        def schema(self) -> str:
            return "key_group int, key bigint, value struct<amount: double, name: string, visits: bigint>"

        def reader(self, schema: Any) -> DataSourceReader:
            return PrebuiltReader(self.options["files"])

    class PrebuiltReader(DataSourceReader):
        def __init__(self, files: str) -> None:
            self.files = files.split(",")

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(file) for file in self.files]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import pyarrow

            with pyarrow.memory_map(partition.value) as source:
                reader = pyarrow.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.dataSource.register(Prebuilt)
    ours = session.read.format("savepoint").option("uid", _UID).option("state", _STATE)
    reference = session.read.format("prebuilt").option("files", ",".join(files))
    rows = sum(pa.ipc.open_file(file).get_batch(i).num_rows for file in files
               for i in range(pa.ipc.open_file(file).num_record_batches))  # fmt: skip
    seconds: dict[str, list[float]] = {"savepoint": [], "prebuilt": []}
    # The JVM compiles its part while it runs: the first half of the rounds is warm-up for both.
    for _ in range(_ROUNDS):
        for name, frame in (("savepoint", ours.load(path)), ("prebuilt", reference.load())):
            begin = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            seconds[name].append(time.perf_counter() - begin)
    session.stop()
    print({name: [round(value, 3) for value in values] for name, values in seconds.items()}, file=sys.stderr)
    mine, theirs = (statistics.median(seconds[name][_ROUNDS // 2 :]) for name in ("savepoint", "prebuilt"))
    return {
        "rows": rows,
        "rows per second": rows / mine,
        "prebuilt batches, rows per second": rows / theirs,
        "of the rate of prebuilt batches": theirs / mine,
    }


_TASK = """
import resource, sys
import stateproc
state = stateproc.open(sys.argv[1]).state(sys.argv[2], sys.argv[3])
rows = sum(batch.num_rows for batch in state.splits(split_bytes=1 << 40)[0].read())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory(path: str) -> dict[str, float]:
    """The peak memory of a Python process that reads one subtask's whole files, beside one that only imports."""
    idle = "import resource, stateproc.snapshot.opening; print(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    found = {}
    for name, code in (("reading", _TASK), ("idle", idle)):
        out = subprocess.run(
            [sys.executable, "-c", code, path, _UID, _STATE], capture_output=True, text=True, check=True
        )
        rows, kilobytes = map(int, out.stdout.split())
        found[f"{name}, MB"] = kilobytes / 1024
        found[f"{name}, rows"] = rows
    return found


def lookup(path: str) -> dict[str, float]:
    """One key: the bytes and requests it takes, beside the bytes of the state."""
    import stateproc
    from tests.helpers.stores.counting_filesystem import counted, counting

    snapshot = stateproc.open(path)
    state_bytes = sum(file.data_bytes for file in snapshot.operator(_UID).keyed_files)
    with counting() as count:
        found = stateproc.open(counted(Path(path).resolve())).state(_UID, _STATE).to_arrow(keys=[4242])
    assert 4242 in found.column("key").to_pylist()
    return {
        "bytes": count.bytes,
        "requests": len(count.requests),
        "rows": found.num_rows,
        "of the state's bytes": count.bytes / state_bytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["codec", "spark", "memory", "lookup"])
    parser.add_argument("path", nargs="?")
    arguments = parser.parse_args()
    if arguments.what == "codec":
        figures = codec()
    elif arguments.path is None or not Path(arguments.path).exists():
        parser.error("name a snapshot: python -m tests.helpers.flink.make_fixtures --big 5000000 --out DIR")
    else:
        figures = {"spark": spark, "memory": memory, "lookup": lookup}[arguments.what](arguments.path)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
