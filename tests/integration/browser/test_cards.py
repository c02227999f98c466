"""Cards in the style sheets of JupyterLab, light and dark, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stateproc
from tests.helpers.browser import browser, missing, open_page
from tests.helpers.paths import DEMO

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

_JUPYTERLAB = """
.jp-RenderedHTMLCommon { font-size: 14px; line-height: 1.5; }
.jp-RenderedHTMLCommon table { table-layout: fixed; margin: 0 auto 1em; font-size: 12px; }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th, .jp-RenderedHTMLCommon tr {
  vertical-align: middle; padding: 0.5em; line-height: normal; white-space: normal; max-width: none; border: none; }
:not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon td, :not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon th {
  text-align: right; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: rgb(200, 200, 255); }
.jp-RenderedHTMLCommon ul { list-style: disc; padding-left: 2em; }
.jp-RenderedHTMLCommon code { background: rgb(200, 200, 255); }
"""
_THEMES = {"light": ("#ffffff", "rgba(0, 0, 0, .87)"), "dark": ("#111111", "#e0e0e0")}


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.mark.parametrize("theme", _THEMES)
def test_styles_of_the_notebook_do_not_reach_the_card(driver: Any, tmp_path: Path, theme: str) -> None:
    snapshot = stateproc.open(str(DEMO), uids=["orders-per-customer"])
    operator = snapshot.operator("orders-per-customer")
    cards = "".join(item._repr_html_() for item in (snapshot, operator, operator.state("profile")))
    background, color = _THEMES[theme]
    page = tmp_path / "notebook.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><style>{_JUPYTERLAB}</style>"
        f"<body style='background:{background};color:{color}'><div class=jp-RenderedHTMLCommon>{cards}</div>"
    )
    open_page(driver, page, 700)
    assert driver.get_log("browser") == []
    cell, number = driver.execute_script(
        "return ['.sp-card td:first-child', '.sp-card td.n'].map(it => getComputedStyle(document.querySelector(it)))"
        ".map(it => [it.textAlign, it.backgroundColor])"
    )
    assert cell == ["left", "rgba(0, 0, 0, 0)"] and number[0] == "right"
    styles = driver.execute_script(
        "const style = it => getComputedStyle(document.querySelector(it));"
        "return [style('.sp-card .tree').listStyleType, style('.sp-card .tree code').backgroundColor,"
        " style('.sp-card tbody tr').backgroundColor, style('.sp-title').color, style('body').color]"
    )
    assert styles[:3] == ["none", "rgba(0, 0, 0, 0)", "rgba(0, 0, 0, 0)"] and styles[3] == styles[4]
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 700
