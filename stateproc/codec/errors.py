"""What an assembler raises when columns make no value; readers give it a place."""

from __future__ import annotations


class BadValue(Exception):
    """Internal: decoded parts that make no value of their type; the message says which."""
