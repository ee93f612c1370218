"""Programs that choose their own port and tell it in their log."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

_START_S = 120.0


def told(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What the log says in the group of `pattern`, once it is there."""
    give_up_s = time.monotonic() + _START_S
    while not (found := re.search(pattern, log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up_s, log.read_text()
        time.sleep(0.02)
    return found.group(1)
