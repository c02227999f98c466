"""What mkdocs does not do itself: pages from files outside `docs`, and folders in the navigation.

Hooks of `mkdocs.yml`, called by mkdocs by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the root that are pages of the site, by the names of the pages."""

SCHEMAS = "stateproc/cli/json_schemas/"
"""The folder of schemas, which are files of the site."""

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace `folder/*` in the navigation by the pages of the folder, in alphabetical order."""
    config.nav = [*_expanded(config.nav or [], Path(config.docs_dir))]
    return config


def _expanded(items: list[Any], docs: Path) -> Iterator[Any]:
    for item in items:
        if not isinstance(item, dict):
            yield item
            continue
        for title, target in item.items():
            if isinstance(target, list):
                yield {title: [*_expanded(target, docs)]}
            elif not target.endswith("/*"):
                yield item
            elif pages := sorted((docs / target[:-2]).glob("*.md")):
                yield {title: [{page.stem: page.relative_to(docs).as_posix()} for page in pages]}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the root of the repository, with links as seen from the folder of pages."""
    for name, page in ROOT_PAGES.items():
        files.append(
            File.generated(config, page, content=site_links((ROOT / name).read_text(encoding="utf-8"), "docs/"))
        )
    for schema in sorted((ROOT / SCHEMAS).glob("*.json")):
        files.append(File.generated(config, f"schemas/{schema.name}", content=schema.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Point links to files at the root and to schemas to their copies in the site; other files become their text."""
    up = "../" * page.file.src_uri.count("/")

    def rewritten(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        outside = target.removeprefix(f"{up}../")
        if outside == target:
            return match[0]
        if outside in ROOT_PAGES:
            return f"[{label}]({up}{ROOT_PAGES[outside]}{anchor})"
        if outside.startswith(SCHEMAS):
            return f"[{label}]({up}schemas/{outside.removeprefix(SCHEMAS)})"
        return label

    return _LINK.sub(rewritten, markdown)


def site_links(text: str, docs: str) -> str:
    """Return Markdown of the root with links to pages of `docs`; links to other files become their text as code."""

    def rewritten(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        if target in ROOT_PAGES:
            return f"[{label}]({ROOT_PAGES[target]}{anchor})"
        if target.startswith(docs) and target.endswith(".md"):
            return f"[{label.removeprefix(docs)}]({target.removeprefix(docs)}{anchor})"
        return label if label.startswith("`") or " " in label else f"`{label}`"

    return _LINK.sub(rewritten, text)
