"""Open snapshots."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stateproc.codec.kryo.protobuf.descriptor_sets import HOW_TO_MAKE, DescriptorSet
from stateproc.errors import InvalidOption
from stateproc.keygroups.key_types import parse_key_types
from stateproc.metadata import SnapshotMetadata, read_metadata
from stateproc.metadata.reader import MOST_BYTES
from stateproc.options import OPEN_OPTIONS
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.state_descriptor import parse_value_types
from stateproc.serializers.core.base import CaseClassArity
from stateproc.serializers.core.registry import load_plugins
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage import SnapshotLocation, locate
from stateproc.storage.store import StorePath

if TYPE_CHECKING:
    from stateproc.query_plans import QueryNames


_MOST_DESCRIPTOR_BYTES = 256 << 20


def given_query_names(
    plan: Any, storage_options: Mapping[str, Any] | None, metadata: SnapshotMetadata
) -> QueryNames | None:
    """Return the names of a compiled plan; None without one."""
    if plan is None:
        return None
    # Lazy: start-up.
    from stateproc.query_plans import query_names, read_plan

    return query_names(read_plan(plan, storage_options), [item.operator_id for item in metadata.operators])


def given_classes(spec: Any) -> Mapping[str, Any]:
    """Return descriptions of user classes."""
    if spec is None:
        return {}
    from stateproc.serializers.java.class_descriptions import parse_classes

    return parse_classes(spec)


def given_descriptor_set(given: Any, storage_options: Mapping[str, Any] | None) -> DescriptorSet | None:
    """Return a descriptor set, checked; None without one. Raises InvalidOption, MissingPackage."""
    if given is None:
        return None
    if isinstance(given, bytes):
        found = DescriptorSet(given)
    else:
        path = os.fspath(given)
        found = DescriptorSet(_descriptor_bytes(path, storage_options), f"the descriptor set {path}")
    if not found.messages:
        raise InvalidOption("the file of option proto cannot be used: it has no messages", advice=HOW_TO_MAKE)
    return found


def _descriptor_bytes(path: str, storage_options: Mapping[str, Any] | None) -> bytes:
    file = StorePath(path, (storage_options if "://" in path else None) or {})
    try:
        status = file.status()
        if status is None or status.is_directory:
            raise InvalidOption(
                f"the file of option proto cannot be used: {path} is {'a directory' if status else 'not there'}",
                advice=HOW_TO_MAKE,
            )
        if status.size > _MOST_DESCRIPTOR_BYTES:
            raise InvalidOption(f"{path} has {status.size} bytes, which no descriptor set has", advice=HOW_TO_MAKE)
        return file.read_range(0, status.size)
    except OSError as error:
        raise InvalidOption(f"{path} cannot be read: {error}", advice=HOW_TO_MAKE) from error


def metadata_bytes(location: SnapshotLocation) -> bytes:
    """Read ``_metadata``. Raises MissingFile, InvalidOption."""
    found = location.metadata.status()
    size = found.size if found else 0
    if size > MOST_BYTES:
        raise InvalidOption(f"{location.metadata_uri} has {size} bytes, which no _metadata has")
    return location.metadata.read_range(0, size)


_FIRST_KRYO_5 = 5
"""Metadata versions from this on are written by Flink 2.x, which has Kryo 5."""


def open(
    path: str,
    *,
    uids: Iterable[str] = (),
    classes: Any = None,
    plugins: Iterable[str] = (),
    temporal: str = "micros",
    on_loss: str = "cut",
    row_kind: bool = False,
    kryo: int | None = None,
    verify: bool = True,
    on_error: str = "fail",
    opaque: str = "fail",
    case_class_arity: str | None = None,
    key_type: Any = None,
    value_type: Any = None,
    plan: Any = None,
    proto: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    path_mapping: Mapping[str, str] | None = None,
    allowed_roots: Iterable[str] = (),
) -> Snapshot:
    """Open a savepoint or checkpoint.

    Arguments accept Python values or the text that the Spark options and the command line accept for them.

    Args:
        path: The snapshot's directory, its ``_metadata``, or a checkpoint root (the newest ``chk-N``).
        uids: Uids of the job, to name the operators of Flink 1.x snapshots, which contain hashes only. One that begins
            with ``@`` is the path of a file: one uid per line, a compiled plan, or a job's plan from Flink's REST API.
        classes: Descriptions of user classes: a dict, JSON text, or the path of a JSON file.
        plugins: Modules to import, which register parsers.
        temporal: 'micros', 'exact' for dates and times as text with nanoseconds, or 'lossless' for text only of types
            whose values can have nanoseconds.
        on_loss: What becomes of what columns cannot hold (digits below a microsecond, a RowKind other than +I without
            ``row_kind``, half of a surrogate pair): it is left out ('cut'), or an error ('fail').
        row_kind: Whether Rows have a column with their RowKind.
        kryo: 2 or 5; default by the release that wrote the snapshot.
        verify: Whether checksums of RocksDB blocks are checked.
        on_error: What a selected state is that cannot be decoded: an error ('fail'), or null with one warning ('null').
        opaque: What values of unknown types are: an error ('fail'), or their bytes where the files contain their length
            ('bytes': canonical savepoints and RocksDB).
        case_class_arity: Whether case classes of flink-scala-api 1.x begin with their number of fields: 'present'
            (1.1.5 and later) or 'absent'; by default found out from the values.
        key_type: The type of keys where a changelog does not contain it: of ``stateproc.types``, its text, or a mapping
            from uids to types.
        value_type: The type of the state of a Python function, as PyFlink's Types names it: ``LONG``, ``LIST<STRING>``
            for list state, ``MAP<STRING, LONG>`` for map state; or a mapping from names of states to types.
        plan: The compiled plan of a SQL job, whose columns give their names to the fields of rows in its states: the
            path or URI of the JSON file, its text, or the parsed JSON.
        proto: A descriptor set of the .proto files of Protobuf messages that Kryo wrote, which are columns then instead
            of bytes: the path or URI of the file that ``protoc --include_imports --descriptor_set_out`` writes, or its
            bytes.
        storage_options: Keyword arguments of the fsspec file system.
        path_mapping: Old prefixes of moved files → new ones.
        allowed_roots: Directories outside of the snapshot's checkpoint root from which files that ``_metadata`` names
            are read, too.

    Returns:
        The snapshot.

    Raises:
        MissingFile: There is no snapshot at ``path``.
        CorruptSnapshot: ``_metadata`` is damaged.
        UnsupportedSnapshot: ``_metadata`` has a version that cannot be read.
        InvalidOption: An argument does not fit, or several snapshots match ``path``.
        MissingPackage: ``proto`` needs the package protobuf, which is not installed.
        NotFound: ``key_type`` names an operator that does not exist.
    """
    given = {
        "uids": uids,
        "classes": classes,
        "plugins": plugins,
        "temporal": temporal,
        "on_loss": on_loss,
        "row_kind": row_kind,
        "kryo": kryo,
        "verify": verify,
        "on_error": on_error,
        "opaque": opaque,
        "case_class_arity": case_class_arity,
        "key_type": key_type,
        "value_type": value_type,
        "plan": plan,
        "proto": proto,
        "storage_options": storage_options,
        "path_mapping": path_mapping,
        "allowed_roots": allowed_roots,
    }
    values = {option.name: option.value(given[option.name]) for option in OPEN_OPTIONS}
    load_plugins(values["plugins"])
    location = locate(path, values["storage_options"], values["path_mapping"], values["allowed_roots"])
    metadata = read_metadata(metadata_bytes(location), file=location.metadata_uri)
    options = ReadOptions(
        temporal=values["temporal"],
        on_loss=values["on_loss"],
        row_kind=values["row_kind"],
        classes=given_classes(values["classes"]),
        plugins=values["plugins"],
        kryo=_kryo(values["kryo"], metadata.version),
        verify=values["verify"],
        on_error=values["on_error"],
        opaque=values["opaque"],
        case_class_arity=CaseClassArity(values["case_class_arity"] or "found"),
        value_types=parse_value_types(values["value_type"]),
        proto=given_descriptor_set(values["proto"], values["storage_options"]),
        key_types=parse_key_types(values["key_type"], (item.operator_id for item in metadata.operators)),
    )
    query = given_query_names(values["plan"], values["storage_options"], metadata)
    return Snapshot(location, metadata, options, values["uids"], query)


def _kryo(given: int | None, metadata_version: int) -> int:
    """Return the version of Kryo that wrote the snapshot, or raise where the option says another."""
    written = 5 if metadata_version >= _FIRST_KRYO_5 else 2
    if given is not None and given != written:
        flink = "2.x" if written == 5 else "1.x"
        raise InvalidOption(
            f"option kryo={given}: version {metadata_version} of _metadata is that of Flink {flink}, which has Kryo "
            f"{written}",
            advice="leave the option out",
        )
    return written
