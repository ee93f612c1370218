"""`python -m experiments.stage.platforms.local.keeper EXPERIMENT FOLDER`: see `journal`."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.stage.platforms.local.journal import keep
from experiments.stage.platforms.local.platform import LocalPlatform


def main() -> None:
    """Undo what the run that started this leaves, when it has ended."""
    experiment, where = sys.argv[1:]
    keep(experiment, Path(where), LocalPlatform(experiment).undo)


if __name__ == "__main__":
    main()
