"""The table of changes: one row each. Command line, job files, their schema and tests are generated from it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.writers.changes.change_definition import ChangeDefinition, SnapshotChange
from stateproc.writers.changes.snapshot_changes import (
    Convert,
    DeleteRows,
    DisableTtl,
    DropInFlightData,
    DropOperator,
    DropPending,
    DropState,
    EnableTtl,
    Evolve,
    EvolveType,
    MoveSource,
    PurgeExpired,
    RenameOperator,
    RenameState,
    Rescale,
    SetOffsets,
    UpdateRows,
    Upgrade,
)

CHANGES: tuple[ChangeDefinition, ...] = (
    ChangeDefinition(
        "convert",
        Convert,
        "write keyed state in another format",
        ("convert",),
        ("--to native-rocksdb",),
        {"to": "native-rocksdb"},
    ),
    ChangeDefinition(
        "rescale",
        Rescale,
        "set the number of key groups of all operators, or of subtasks of some",
        ("rescale",),
        ("--max-parallelism 1024", "--parallelism orders=8 --parallelism customers=4"),
        {"max_parallelism": 1024, "parallelism": {"orders": 8}},
    ),
    ChangeDefinition(
        "upgrade",
        Upgrade,
        "write metadata and serializers as another Flink release does",
        ("upgrade",),
        ("--flink-version 2.3", "--flink-version 2.3 --scala flink-scala-api"),
        {"flink_version": "2.3", "flink_cdc": "3.1", "scala": "flink-scala-api"},
    ),
    ChangeDefinition(
        "rename-operator",
        RenameOperator,
        "give an operator another uid",
        ("rename-operator",),
        ("--uid orders --to orders-v2",),
        {"uid": "orders", "to": "orders-v2"},
    ),
    ChangeDefinition(
        "move-source",
        MoveSource,
        "give the positions of a FlinkKafkaConsumer or FlinkKinesisConsumer to the source that takes its place",
        ("move-source",),
        ("--uid old-orders --to orders",),
        {"uid": "old-orders", "to": "orders", "enumerator_version": 1, "stream_arn": "arn:aws:kinesis:::stream/orders"},
    ),
    ChangeDefinition(
        "drop-operator",
        DropOperator,
        "leave out operators and all their state",
        ("drop-operator",),
        ("--uid orders --uid customers",),
        {"uid": ["orders", "customers"]},
    ),
    ChangeDefinition(
        "drop-pending",
        DropPending,
        "drop what sinks have written and not committed",
        ("drop-pending",),
        ("--uid invoices-sink",),
        {"uid": ["invoices-sink"]},
    ),
    ChangeDefinition(
        "drop-state",
        DropState,
        "leave out keyed states of an operator",
        ("drop-state",),
        ("--uid orders --state totals",),
        {"uid": "orders", "state": ["totals"]},
    ),
    ChangeDefinition(
        "rename-state",
        RenameState,
        "rename a keyed state of an operator",
        ("rename-state",),
        ("--uid orders --state totals --to sums",),
        {"uid": "orders", "state": "totals", "to": "sums"},
    ),
    ChangeDefinition(
        "delete",
        DeleteRows,
        "delete the rows of states for which a condition is true",
        ("delete",),
        (
            '--uid orders --state totals --where "key = 42"',
            '--uid orders --state items --flatten --where "map_value.price < 0"',
        ),
        {"uid": "orders", "state": ["totals"], "where": "key = 42", "flatten": False},
    ),
    ChangeDefinition(
        "update",
        UpdateRows,
        "set columns of the rows of states for which a condition is true",
        ("update",),
        (
            '--uid orders --state totals --set "value.total = 0" --where "key = 42"',
            '--uid orders --state items --flatten --set "map_value.price = 0" --where "map_value.price < 0"',
        ),
        {
            "uid": "orders",
            "state": ["totals"],
            "set": ["value.total = 0"],
            "where": "key = 42",
            "flatten": False,
        },
    ),
    ChangeDefinition(
        "evolve-type",
        EvolveType,
        "give the values of states or the keys of an operator another type: fields added, removed, renamed, widened",
        ("evolve-type",),
        (
            "--uid orders --state totals --to Long",
            "--uid orders --state last --to com.acme.Order --classes classes.json --rename customer=buyer "
            "--set \"value.note = 'none'\"",
            "--uid orders --state last --kind list --to com.acme.Order --classes classes.json",
            "--uid orders --key --to Long",
        ),
        {
            "uid": "orders",
            "state": ["totals"],
            "to": "Long",
            "rename": {"customer": "buyer"},
            "set": ["value.note = 'none'"],
            "key": False,
            "kind": "map",
            "map_key_type": "String",
        },
    ),
    ChangeDefinition(
        "evolve",
        Evolve,
        "carry the state of a SQL job over to a changed query",
        ("evolve",),
        (
            "--from-plan old.json --to-plan new.json",
            "--from-plan old.json --to-plan new.json --map 6_group-aggregate=9_group-aggregate --empty 12_join",
            "--from-plan old.json --to-plan new.json --fill '14_join.left.discount=0'",
        ),
        {
            "from_plan": "old.json",
            "to_plan": "new.json",
            "map": {"6_group-aggregate": "9_group-aggregate"},
            "empty": ["12_join"],
            "new_aggregates": "empty",
            "emitted": "keep",
            "fill": {"14_join.left.discount": "0"},
        },
    ),
    ChangeDefinition(
        "ttl-enable",
        EnableTtl,
        "enable the time to live of states; the job sets the duration",
        ("ttl", "enable"),
        ("--uid orders --state totals",),
        {"uid": "orders", "state": ["totals"], "last_access": "2026-01-31T12:00:00Z"},
    ),
    ChangeDefinition(
        "ttl-disable",
        DisableTtl,
        "disable the time to live of states",
        ("ttl", "disable"),
        ("--uid orders --state totals",),
        {"uid": "orders", "state": ["totals"]},
    ),
    ChangeDefinition(
        "ttl-purge",
        PurgeExpired,
        "drop expired entries of states with time to live",
        ("ttl", "purge"),
        ("--uid orders --state totals --ttl '7 d'",),
        {"uid": "orders", "state": ["totals"], "ttl": "7 d", "now": "2026-01-31T12:00:00Z"},
    ),
    ChangeDefinition(
        "set-offsets",
        SetOffsets,
        "change where a source continues, and drop pending transactions of Kafka sinks",
        ("set-offsets",),
        (
            "--uid orders --offsets shop.orders:0=845180 --offsets shop.orders:1=latest",
            "--uid orders --all earliest",
            "--uid customers --position binlog-split=mysql-bin.000003:4711",
        ),
        {
            "uid": "orders",
            "offsets": {"shop.orders:0": 845180, "shop.orders:1": "latest"},
            "topics": {"returns": "earliest"},
            "all": "committed",
            "remove": ["shop.orders:7"],
            "position": {"shop.orders-2": "845180"},
            "drop_transactions": ["invoices"],
        },
    ),
    ChangeDefinition(
        "drop-in-flight-data",
        DropInFlightData,
        "drop the records in flight of an unaligned checkpoint, which are lost then",
        (),
    ),
)
CHANGES_BY_NAME: Mapping[str, ChangeDefinition] = {definition.name: definition for definition in CHANGES}


def change_from_dict(given: Mapping[str, Any]) -> SnapshotChange:
    """Make a change from an object with one member: its name, and its fields as plain values.

    Example: ``{"rename-operator": {"uid": "orders", "to": "orders-v2"}}``.

    Raises:
        InvalidOption: There is no change of that name, or a field does not fit.
    """
    if not isinstance(given, Mapping) or len(given) != 1:
        raise InvalidOption(
            f"{given!r} is no change", advice="write its name and its fields: drop-operator: {uid: orders}"
        )
    ((name, values),) = given.items()
    if name not in CHANGES_BY_NAME:
        near = difflib.get_close_matches(str(name), CHANGES_BY_NAME, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InvalidOption(f"there is no change '{name}'", advice=f"there are: {', '.join(CHANGES_BY_NAME)}{hint}")
    if values is not None and not isinstance(values, Mapping):
        raise InvalidOption(f"{name}: {values!r}", advice="give its fields as an object: {uid: orders}")
    return CHANGES_BY_NAME[name].make(values or {})


def changes_schema() -> dict[str, Any]:
    """Return the JSON Schema of a list of changes."""
    alternatives = [
        {
            "type": "object",
            "properties": {item.name: item.schema()},
            "required": [item.name],
            "additionalProperties": False,
        }
        for item in CHANGES
    ]
    return {"type": "array", "items": {"oneOf": alternatives}}
