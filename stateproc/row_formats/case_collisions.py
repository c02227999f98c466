"""Names that differ by case only: where they are, and other names for readers that do not distinguish them.

Flink distinguishes ``id`` and ``ID``, as Arrow and Parquet do. DuckDB, Spark (without ``spark.sql.caseSensitive``) and
Delta do not. Each of such names gets a number, in the order of their code points: ``ID`` and ``id`` become ``ID_1`` and
``id_2``. None keeps its name, so that no name is silently another's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow as pa

Fold = Callable[[str], str]
"""Returns the same text for names that a reader takes for one."""


def ascii_lower(name: str) -> str:
    """Fold a name as DuckDB does: letters A to Z alone have a lower case."""
    return "".join(sign.lower() if "A" <= sign <= "Z" else sign for sign in name)


def java_fold(name: str) -> str:
    """Fold a name as Spark and Delta do, by Java's String.equalsIgnoreCase: sign by sign, by simple case mappings."""
    return "".join(_simple_lower(_simple_upper(sign)) for sign in name)


def _simple_upper(sign: str) -> str:
    upper = sign.upper()
    return upper if len(upper) == 1 else sign


def _simple_lower(sign: str) -> str:
    # U+0130, I with a dot, is the only letter whose full lower case has two signs; its simple one is i.
    return "i" if sign == "\u0130" else sign.lower()


def matching_names(names: Sequence[str], wanted: str) -> list[str]:
    """Return the name that is written like ``wanted``, else those that DuckDB takes for it."""
    return [wanted] if wanted in names else [name for name in names if ascii_lower(name) == ascii_lower(wanted)]


def distinct_names(names: Sequence[str], fold: Fold, reserved: Collection[str] = ()) -> list[str]:
    """Return the names, each of those that fold alike with a number, in the order of their code points.

    Args:
        fold: The reader's rule.
        reserved: Further names, folded, that the reader uses itself.
    """
    counts = Counter(map(fold, names))
    taken = {*counts, *reserved}
    numbers: Counter[str] = Counter()
    chosen = list(names)
    for index in sorted(range(len(names)), key=lambda at: (names[at], at)):
        name, folded = names[index], fold(names[index])
        if counts[folded] == 1 and folded not in reserved:
            continue
        while fold(chosen[index]) in taken:
            numbers[folded] += 1
            chosen[index] = f"{name}_{numbers[folded]}"
        taken.add(fold(chosen[index]))
    return chosen


def colliding_names(schema: pa.Schema, fold: Fold) -> list[str]:
    """Return the paths of the columns and fields that fold like another one beside them."""
    return [path for path, _ in _collisions(list(schema), fold, "")]


def colliding_words(schema: pa.Schema, fold: Fold) -> set[str]:
    """Return the folded names that columns or fields share with another one beside them."""
    return {fold(name) for _, name in _collisions(list(schema), fold, "")}


def _collisions(fields: Sequence[pa.Field], fold: Fold, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each field that folds like another one."""
    groups: dict[str, list[str]] = defaultdict(list)
    for field in fields:
        groups[fold(field.name)].append(field.name)
    for names in groups.values():
        if len(names) > 1:
            yield from ((prefix + name, name) for name in sorted(names))
    for field in fields:
        yield from _inner_collisions(field.type, fold, prefix + field.name)


def _inner_collisions(type_: pa.DataType, fold: Fold, path: str) -> Iterator[tuple[str, str]]:
    if pa.types.is_struct(type_):
        yield from _collisions(list(type_), fold, f"{path}.")
    elif pa.types.is_map(type_):
        yield from _inner_collisions(type_.key_type, fold, f"{path}.key")
        yield from _inner_collisions(type_.item_type, fold, f"{path}.value")
    elif is_list(type_):
        yield from _inner_collisions(type_.value_type, fold, f"{path}[]")


def distinct_schema(schema: pa.Schema, fold: Fold) -> pa.Schema:
    """Return the schema with names that a reader distinguishes, those of fields at any depth included."""
    return pa.schema(_distinct(list(schema), fold), schema.metadata)


def _distinct(fields: Sequence[pa.Field], fold: Fold) -> list[pa.Field]:
    names = distinct_names([field.name for field in fields], fold)
    return [
        field.with_name(name).with_type(_distinct_type(field.type, fold))
        for field, name in zip(fields, names, strict=True)
    ]


def _distinct_type(type_: pa.DataType, fold: Fold) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct(_distinct(list(type_), fold))
    if pa.types.is_map(type_):
        key = type_.key_field.with_type(_distinct_type(type_.key_type, fold))
        return pa.map_(key, type_.item_field.with_type(_distinct_type(type_.item_type, fold)))
    if is_list(type_):
        value = type_.value_field.with_type(_distinct_type(type_.value_type, fold))
        if pa.types.is_fixed_size_list(type_):
            return pa.list_(value, type_.list_size)
        return pa.large_list(value) if pa.types.is_large_list(type_) else pa.list_(value)
    return type_


def is_list(type_: pa.DataType) -> bool:
    """Return whether values of a type are lists of any kind."""
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def distinct_reader(reader: pa.RecordBatchReader, fold: Fold) -> pa.RecordBatchReader:
    """Return a stream whose names a reader distinguishes; the same stream if they are distinct."""
    schema = distinct_schema(reader.schema, fold)
    if schema.equals(reader.schema):
        return reader
    return pa.RecordBatchReader.from_batches(schema, (renamed_batch(batch, schema) for batch in reader))


def renamed_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch under other names, without copying; ``schema`` has the same types in the same order."""
    columns = [
        column if column.type.equals(field.type) else column.view(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, a number after each that another one before it has: ``key``, ``key_1``."""
    taken, chosen = set(names), []
    seen: set[str] = set()
    for name in names:
        number, unique = 0, name
        while unique in seen or (unique != name and unique in taken):
            number += 1
            unique = f"{name}_{number}"
        seen.add(unique)
        chosen.append(unique)
    return chosen
