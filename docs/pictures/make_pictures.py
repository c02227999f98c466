"""Make the pictures of README and docs: the page of ``inspect --html`` in Chromium, commands in a terminal by rich.

Run from the root of the repository: ``python docs/pictures/make_pictures.py``.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import stateproc
from tests.helpers.browser import browser, missing, open_page

PICTURES = Path(__file__).parent
DEMO = "tests/fixtures/1.20/demo/snapshot"
UIDS = "orders-from-kafka,orders-per-customer,revenue-per-product"
TERMINALS = {
    "terminal-inspect.svg": f"inspect {DEMO} --uids {UIDS}",
    "terminal-read.svg": f"read {DEMO} --uid orders-per-customer --state spent-per-product --flatten --limit 8"
    " --where \"map_value > 90 AND map_key LIKE 'te%'\"",
}


def main() -> None:
    """Write all pictures to this folder."""
    for name, arguments in TERMINALS.items():
        terminal_picture(PICTURES / name, arguments)
    if missing():
        sys.exit(f"the page has no new picture: {missing()}")
    page_picture(PICTURES / "inspect-page.png")
    cards_picture(PICTURES / "notebook-cards.png")


def terminal_picture(target: Path, arguments: str) -> None:
    """Run a command in a terminal of 120 columns and draw what it prints."""
    shown = Console(record=True, width=122, file=io.StringIO(), force_terminal=True)
    shown.print(Text.assemble(("$ ", "green"), (f"stateproc {arguments}", "bold")), soft_wrap=False)
    shown.print(Text.from_ansi(_printed(arguments)))
    svg = shown.export_svg(title="stateproc", theme=MONOKAI, unique_id=target.stem)
    # Fonts of the machine instead of those that rich loads from a server.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    target.write_text(svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"), encoding="utf-8")


def _printed(arguments: str) -> str:
    """Return what a command prints on a terminal, with its colours."""
    command = f"stty cols 120 rows 60; {sys.executable} -m stateproc.cli {arguments} 2> /dev/null"
    script = ["script", "-qec", command, "/dev/null"]
    done = subprocess.run(script, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    # The folder of this checkout is no part of the picture; blanks keep the frame straight.
    folder = f"{Path.cwd()}/"
    return done.stdout.replace("\r", "").replace(f"{folder}{DEMO}", DEMO + " " * len(folder))


def page_picture(target: Path) -> None:
    """Open the demo's page in a window and take its picture."""
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        page = Path(folder) / "page.html"
        command = [sys.executable, "-m", "stateproc.cli", "inspect", DEMO, "--uids", UIDS, "--html", str(page)]
        subprocess.run(command, check=True)
        open_page(driver, page, 1120, 1240)
        driver.execute_script(
            "[...document.querySelectorAll('.path')].forEach(it => it.textContent = arguments[0])", DEMO
        )
        target.write_bytes(driver.get_screenshot_as_png())


def cards_picture(target: Path) -> None:
    """Draw the cards of a snapshot, an operator and a state."""
    snapshot = stateproc.open(DEMO, uids=UIDS)
    operator = snapshot.operator("orders-per-customer")
    cards = "".join(item._repr_html_() for item in (snapshot, operator, operator.state("profile")))
    # The folder of this checkout is no part of the picture.
    cards = cards.replace(f"{Path.cwd()}/", "").replace('<div class="sp sp-card">', '<p></p><div class="sp sp-card">')
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        page = Path(folder) / "cards.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><body style='margin:0 12px'>{cards}", encoding="utf-8")
        open_page(driver, page, 800, 780)
        target.write_bytes(driver.get_screenshot_as_png())


if __name__ == "__main__":
    main()
