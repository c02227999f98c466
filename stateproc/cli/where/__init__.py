"""The conditions of ``--where``: SQL parsed by sqlglot, evaluated batch by batch with pyarrow.

Only listed operators and functions are evaluated, so that a condition reads nothing but the batch. May import errors,
codec and keygroups. Imported only when ``--where`` is given: sqlglot takes 0.4 s to load.
"""

from stateproc.cli.where.key_predicates import key_groups_in, keys_in
from stateproc.cli.where.parser import WhereCondition, parse
from stateproc.cli.where.row_filter import RowFilter

__all__ = ["RowFilter", "WhereCondition", "key_groups_in", "keys_in", "parse"]
