"""Java's wire formats: java.io.DataOutput bytes read (Cursor) and written (Output), Java object streams."""

from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

__all__ = ["Cursor", "Output"]
