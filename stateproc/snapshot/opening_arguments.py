"""Convert the arguments of `stateproc.open` to what snapshots are made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stateproc.codec.kryo.protobuf.descriptor_sets import HOW_TO_MAKE, DescriptorSet
from stateproc.errors import InvalidOption
from stateproc.metadata import SnapshotMetadata
from stateproc.metadata.reader import MOST_BYTES
from stateproc.storage import SnapshotLocation
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
