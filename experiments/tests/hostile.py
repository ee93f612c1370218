"""A user's folder whose files have the names of our packages."""

from __future__ import annotations

from pathlib import Path


def hostile(folder: Path) -> Path:
    """Return the folder; its modules raise an error when they are imported."""
    for name in ("experiments", "optimizer", "grafana", "docs"):
        (folder / f"{name}.py").write_text(f"raise SystemExit('a user\\'s {name}.py')\n")
    return folder
