"""Which class names are the user's: those without a package, too."""

from __future__ import annotations

import pytest

from stateproc.verification.class_mentions import is_user_class


@pytest.mark.parametrize("name", ["Order", "Cart$Line", "com.acme.Order", "[LOrder;", "[[Lcom.acme.Order;"])
def test_classes_of_the_user(name: str) -> None:
    assert is_user_class(name)


@pytest.mark.parametrize("name", ["", "[I", "[[J", "java.lang.String", "[Ljava.lang.String;", "scala.Option"])
def test_classes_of_the_platform(name: str) -> None:
    assert not is_user_class(name)
