"""Decode values of one layout: builder, machine and assembler in one class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.layouts import Layout
from stateproc.codec.machine import Machine


class ValueDecoder:
    """Decodes byte strings that each hold exactly one value of ``layout``."""

    def __init__(self, layout: Layout) -> None:
        builder = Builder()
        self._assemble = layout.emit(builder, False)
        builder.op(ops.ROW_END)
        self._machine = Machine(builder.build())

    def decode(self, data: Any, starts: Any, ends: Any) -> pa.Array:
        """The values at ``data[starts[i]:ends[i]]`` (uint8; int64 arrays). Raises DecodeFailure."""
        n = len(starts)
        parts: list[pa.Array] = []
        done = 0
        while done < n or not parts:
            done = self._machine.run(data, np.atleast_2d(starts), np.atleast_2d(ends), done, n)
            parts.append(self._assemble(self._machine.decoded()))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
