"""Errors of assemblers, when columns make no value; readers add file and position."""

from __future__ import annotations


class BadValue(Exception):
    """Internal: decoded parts that make no value of their type; the message says which."""


class Unrepresentable(BadValue):
    """Internal: sound values that the chosen Arrow type cannot hold; readers call it unsupported, not damage."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class LoneSurrogate(Unrepresentable):
    """Internal: text with half of a surrogate pair, which is no UTF-8."""

    def __init__(self) -> None:
        super().__init__(
            "text with half of a surrogate pair, which is no character and has no UTF-8",
            "leave the state as it is, or read with on_loss='cut': the half becomes U+FFFD then",
        )
