"""Run the notebooks and keep what they show, except what the JVM prints on stderr: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def main(names: list[str]) -> None:
    """Run the named notebooks, or all, and write their outputs into them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.metadata.pop("execution", None)
                cell.outputs = [item for item in cell.outputs if item.get("name") != "stderr"]
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
