"""Read and write CheckpointProperties, the Java object at the end of ``_metadata`` since V4."""

from __future__ import annotations

from typing import Literal, cast

from stateproc.metadata.snapshot import CheckpointProperties
from stateproc.metadata.stream_handles import TAKE_AGAIN
from stateproc.wire.cursor import Cursor
from stateproc.wire.java_stream import JavaEnum, JavaObject, JavaValue, read_java_object
from stateproc.wire.output import Output

_NULL = bytes.fromhex("aced000570")
_CLASS = "org.apache.flink.runtime.checkpoint.CheckpointProperties"


def read_properties(cursor: Cursor) -> CheckpointProperties | None:
    """Read the properties; None where Flink wrote null. Raises CorruptSnapshot, UnsupportedSnapshot."""
    at = cursor.pos
    value = read_java_object(cursor)
    if value is None:
        return None
    if not isinstance(value, JavaObject) or value.class_name != _CLASS:
        cursor.corrupt("another object where the checkpoint properties are expected", at=at, advice=TAKE_AGAIN)
    kind = value.fields.get("checkpointType")
    return CheckpointProperties(
        is_savepoint=_is_savepoint(kind),
        format=_format(kind),
        name=_name(kind),
        flags={name: flag for name, flag in value.fields.items() if isinstance(flag, bool)},
        raw=bytes(cursor.data[at : cursor.pos]),
    )


def write_properties(out: Output, properties: CheckpointProperties | None) -> None:
    """Write what :func:`read_properties` reads: the bytes that Flink wrote, else a null object.

    Restoring does not need them (Checkpoints.loadAndValidateCheckpoint); Flink's own SavepointWriter writes null.
    """
    out.raw(properties.raw if properties is not None and properties.raw else _NULL)


def _is_savepoint(kind: JavaValue) -> bool | None:
    """SavepointType or CheckpointType; before 1.15 an enum, with constants like SYNC_SAVEPOINT."""
    if isinstance(kind, JavaEnum):
        return "SAVEPOINT" in kind.constant
    if isinstance(kind, JavaObject):
        return kind.class_name.rpartition(".")[2] == "SavepointType"
    return None


def _format(kind: JavaValue) -> Literal["CANONICAL", "NATIVE"] | None:
    found = kind.fields.get("formatType") if isinstance(kind, JavaObject) else None
    if isinstance(found, JavaEnum) and found.constant in ("CANONICAL", "NATIVE"):
        return cast(Literal["CANONICAL", "NATIVE"], found.constant)
    return None


def _name(kind: JavaValue) -> str | None:
    if isinstance(kind, JavaEnum):
        return kind.constant
    name = kind.fields.get("name") if isinstance(kind, JavaObject) else None
    return name if isinstance(name, str) else None
