"""A module of this project as a program of its own, whatever lies in the folder it is started in.

`python -m experiments.cli` imports from the working directory first: a file optimizer.py of a
user's stands in for ours, and the program ends. `-P` leaves that folder out. What is left (an
installed package, PYTHONPATH) may not have the project, where it was imported from a checkout that
was the working directory: this file, started as a script, adds the folder that it lies in.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

_HERE = Path(__file__).resolve()


def program(module: str, *arguments: str) -> list[str]:
    """Return the command of `python -m module`, with the imports of this process."""
    return [sys.executable, "-P", str(_HERE), module, *arguments]


def _main() -> None:
    root = str(_HERE.parents[1])
    if root not in sys.path:
        sys.path.insert(0, root)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
