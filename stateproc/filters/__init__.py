"""The conditions on rows (``--where``): SQL parsed by sqlglot, evaluated batch by batch with pyarrow.

Only listed operators and functions are evaluated, so that a condition reads nothing but the batch. May import errors,
codec, keygroups and row_formats. Imported only when there is a condition: sqlglot takes 0.4 s to load.
"""

from stateproc.filters.key_predicates import key_groups_in, keys_in
from stateproc.filters.parser import WhereCondition, parse
from stateproc.filters.row_filter import RowFilter

__all__ = ["RowFilter", "WhereCondition", "key_groups_in", "keys_in", "parse"]
