"""Fill templates. Every value is escaped, whatever a snapshot contains."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stateproc.html import pictures
from stateproc.html.units import counted, human_bytes, size_parts, visible


def _shown(value: Any) -> Any:
    """Make what a template prints visible; ``Markup`` is left as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("stateproc.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(bar=pictures.bar, counted=counted, human_bytes=human_bytes, size_parts=size_parts)
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template with these values. Only ``Markup`` is not escaped."""
    return _environment().get_template(template).render(**values)


@cache
def asset(name: str) -> Markup:
    """Return a style sheet or script of this package, to be part of a page as it is."""
    return Markup((files("stateproc.html") / "templates" / name).read_text(encoding="utf-8"))
