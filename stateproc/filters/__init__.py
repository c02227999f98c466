"""The conditions on rows (``--where``): SQL that DuckDB parses and evaluates, batch by batch.

A condition is one expression that reads nothing but the row. May import errors, codec, keygroups and row_formats.
Imported only when there is a condition: DuckDB takes 0.08 s to load.
"""

from stateproc.filters.condition import is_text_of_number, parse, resolved_path
from stateproc.filters.key_predicates import allowed_by, key_groups_in, keys_in
from stateproc.filters.row_filter import RowExpression, RowFilter

__all__ = [
    "RowExpression",
    "RowFilter",
    "allowed_by",
    "is_text_of_number",
    "key_groups_in",
    "keys_in",
    "parse",
    "resolved_path",
]
