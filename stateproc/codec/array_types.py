"""The numpy array types of the codec. Kernels that Python calls annotate arrays by these names (``signatures``)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
LongTable = npt.NDArray[np.int64]
"""In two dimensions."""
Words = npt.NDArray[np.uint32]
