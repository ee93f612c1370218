"""Makes the scripts that run inside the mariadb image's build importable here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mariadb" / "content"))
