"""Make a folder of Parquet files a Delta table by writing its log, with the package ``deltalake``: no JVM."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from stateproc.errors import InvalidOption, WriteFailed, package_for
from stateproc.export.file_formats import delta_schema
from stateproc.export.file_plan import PARTITION_COLUMN, partition_of
from stateproc.export.manifest import ExportedFile, ExportedState
from stateproc.row_formats.case_collisions import colliding_names, java_fold
from stateproc.storage.store import StorageOptions, StorePath
from stateproc.storage.uris import has_directories


def check_delta_available() -> None:
    """Raise MissingPackage if the package that writes Delta's log is not installed."""
    with package_for("export to Delta"):
        import deltalake  # noqa: F401


def check_delta_names(schema: pa.Schema) -> None:
    """Raise InvalidOption if columns or fields differ by case only: Delta tables cannot have them."""
    unclear = colliding_names(schema, java_fold)
    if unclear:
        raise InvalidOption(
            f"the columns or fields {', '.join(unclear)} differ by case only, which Delta tables cannot have",
            advice="export this state as parquet",
        )


def commit_table(directory: StorePath, state: ExportedState, schema: pa.Schema, partitioned: bool) -> None:
    """Write version 0 of the Delta table that consists of a state's files; nothing if there is a version 0 already.

    Raises:
        WriteFailed: The log cannot be written.
    """
    from deltalake import Schema
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, create_table_with_add_actions

    assert state.folder is not None
    table = directory / state.folder
    if (table / "_delta_log" / f"{0:020}.json").exists(fresh=True):
        return
    stored = delta_schema(schema)
    if partitioned:
        stored = stored.append(pa.field(PARTITION_COLUMN, pa.string()))
    actions = [
        AddAction(
            path=file.path.removeprefix(state.folder + "/"),
            size=file.bytes,
            partition_values=_partition_values(file, state.folder) if partitioned else {},
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": file.rows}),
        )
        for file in state.files
    ]
    uri = f"file://{table}" if table.uri.startswith("/") else table.uri
    try:
        create_table_with_add_actions(
            uri,
            Schema.from_arrow(stored),
            actions,
            mode="error",
            partition_by=[PARTITION_COLUMN] if partitioned else None,
            storage_options=None if has_directories(table.uri) else _client_options(table.options),
        )
    except (DeltaError, OSError, ValueError) as error:
        raise WriteFailed(
            f"the log of the Delta table {table} cannot be written: {error}",
            advice="run the export again: complete files are kept; or export as parquet",
        ) from error


def _partition_values(file: ExportedFile, folder: str) -> dict[str, str | None]:
    return {PARTITION_COLUMN: partition_of(file.path.rpartition("/")[0], folder)}


_CLIENT_NAMES: Sequence[tuple[tuple[str, ...], str]] = (
    (("key",), "AWS_ACCESS_KEY_ID"),
    (("secret",), "AWS_SECRET_ACCESS_KEY"),
    (("token",), "AWS_SESSION_TOKEN"),
    (("endpoint_url",), "AWS_ENDPOINT_URL"),
    (("client_kwargs", "endpoint_url"), "AWS_ENDPOINT_URL"),
    (("client_kwargs", "region_name"), "AWS_REGION"),
)
"""Options of s3fs → those of deltalake's own client."""


def _client_options(options: StorageOptions) -> dict[str, str]:
    """Return options of fsspec under the names that deltalake's client knows."""
    found: dict[str, str] = {}
    for path, name in _CLIENT_NAMES:
        value: Any = options
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            found[name] = str(value)
    if found.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found
