"""The name under which Sparecraft is installed.

In a checkout the rooms (`core`, `experiments`, `optimizer`, ...) lie beside this folder. A wheel
has them in `rooms/`, with the files they read, so that an installation adds one name to Python's.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PACKED = Path(__file__).resolve().parent / "rooms"
HOME = _PACKED if _PACKED.is_dir() else _PACKED.parents[1]


def main() -> None:
    """Run the command `sparecraft`."""
    use_rooms()
    from experiments.cli import main as command

    command()


def use_rooms() -> None:
    """Make the rooms importable, for a program that uses them: `import core.units`."""
    if str(HOME) not in sys.path:
        sys.path.insert(0, str(HOME))
