"""Java's wire formats: a bounds-checked cursor over java.io.DataOutput bytes, Java object streams."""

from stateproc.wire.cursor import Cursor

__all__ = ["Cursor"]
