"""How long `offsets` and `pending` take for 10,000 splits, chunks or files: seconds of CPU, wanted 2.

Run: ``python -m benchmarks.connectors``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter
from stateproc.connectors.connector_format import written_version
from stateproc.snapshot.snapshot import Snapshot
from tests.unit.connectors.test_large import MANY, vector

CASES = (
    ("mysql-cdc", "mysql-snapshot-read-finished", "SourceReaderState", Snapshot.offsets),
    ("filesource", "filesource-1.20/SourceReaderState", "SourceReaderState", Snapshot.offsets),
    ("iceberg", "iceberg-split-v3", "SourceReaderState", Snapshot.offsets),
    ("filesink", "filesink-1.20/writer", "writer_raw_states", Snapshot.pending),
)


def main() -> None:
    """Print a line per connector."""
    for family, name, state, question in CASES:
        item = vector(family, name).item
        elements = pa.table({"value": pa.array([written_version(item.version, item.payload)] * MANY, pa.binary())})
        bootstrap = OperatorBootstrap().operator_list_state(state, elements)
        with tempfile.TemporaryDirectory() as directory:
            target = Path(directory, "snapshot")
            SavepointWriter.new_savepoint(None).with_operator("source", bootstrap).write(target)
            started = time.process_time()
            rows = question(stateproc.open(target)).num_rows
            print(f"{family}: {rows:,} rows in {time.process_time() - started:.2f} s of CPU, wanted 2", flush=True)


if __name__ == "__main__":
    main()
