#!/usr/bin/env python3
"""Runs the notebooks of examples/notebooks from their beginning; an error of a cell fails.
  scripts/check-notebooks.py             runs them
  scripts/check-notebooks.py --write     also writes their outputs
Ends with status 77, saying why, where nbclient or a kernel of Python is missing. The models are those of HEED_MODELS (models/)."""
import os
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
LARGEST = 60_000  # characters of an output that is kept: pages of attention are larger


def skip(why):
    print(f"check-notebooks: skipped: {why}", file=sys.stderr)
    sys.exit(77)


try:
    import nbformat
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
except ImportError as error:
    skip(f"{error} (pip install nbclient ipykernel)")


def kept(output):
    """The output without what differs from run to run; None for what is large, a widget, or no result."""
    data = output.get("data", {})
    if "application/vnd.jupyter.widget-view+json" in data or sum(len(str(value)) for value in data.values()) > LARGEST:
        return None
    if output.output_type == "stream" and output.name == "stderr":
        return None
    return output


def run(path, write):
    notebook = nbformat.read(path, 4)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=280, kernel_name="python3", store_widget_state=False, resources={"metadata": {"path": folder}})
        try:
            client.execute()
        except NoSuchKernel:
            skip("no kernel of Python (pip install ipykernel)")
        except CellExecutionError as error:
            sys.exit(f"check-notebooks: error: {path.name}: {error}")
    if write:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [output for output in map(kept, cell.outputs) if output is not None]
            cell.metadata.pop("execution", None)
        notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(notebook, path)
    print(f"check-notebooks: {path.name} ran in {time.monotonic() - began:.0f} s")


def main():
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit("usage: scripts/check-notebooks.py [--write]")
    os.environ.setdefault("HEED_MODELS", str(FOLDER.parents[1] / "models"))
    for path in sorted(FOLDER.glob("*.ipynb")):
        run(path, sys.argv[1:] == ["--write"])


main()
