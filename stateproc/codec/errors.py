"""Errors of assemblers, when columns make no value; readers add file and position."""

from __future__ import annotations


class BadValue(Exception):
    """Internal: decoded parts that make no value of their type; the message says which."""


class Unrepresentable(BadValue):
    """Internal: sound values that the chosen Arrow type cannot hold; readers call it unsupported, not damage."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice
