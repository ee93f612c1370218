"""A second run is refused at once, and the lock goes with its holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.errors import EnvironmentMissing
from experiments.stage.lock import run_lock

_HOLD = """
import sys
from pathlib import Path
from experiments.stage.lock import run_lock
with run_lock(Path(sys.argv[1]), "first"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_and_told_who_holds_the_first(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(EnvironmentMissing, match=rf"first \(process {holder.pid}\)"):
            run_lock(tmp_path, "second").__enter__()
        holder.kill()
    with run_lock(tmp_path, "second"):
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()
