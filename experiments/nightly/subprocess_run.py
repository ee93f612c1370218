"""A command as a child process, with its output in a log and a time limit; no child remains."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.testbed.signals import Signals

GRACE_S = 300.0  # for a run to revert its faults and remove its fleet


@dataclass(frozen=True)
class Ended:
    """The end of a command; `late` if it was interrupted after its time limit."""

    code: int
    late: bool = False


def carry_out(
    command: Sequence[str | Path],
    log: Path,
    limit_s: float,
    signals: Signals,
    grace_s: float = GRACE_S,
) -> Ended:
    """Run a command to its end, or for `limit_s`: then it is interrupted as by Ctrl-C, and killed
    with all its children if it has not ended `grace_s` later.

    A KeyboardInterrupt ends the command in the same way, and is raised again; one by `signals` that
    comes while the command is being started too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    process = None
    with log.open("ab") as output:
        try:
            with signals.deferred():  # else a child may be there of which nobody knows
                process = subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # so that a Ctrl-C reaches it once, from here
                )
            return Ended(process.wait(limit_s))
        except subprocess.TimeoutExpired:
            assert process is not None
            return Ended(_end(process, grace_s), late=True)
        except KeyboardInterrupt:
            if process is not None:
                _end(process, grace_s)
            raise


def _end(process: subprocess.Popen[bytes], grace_s: float) -> int:
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(grace_s)
    except subprocess.TimeoutExpired:
        code = signal.SIGKILL + 128
    with contextlib.suppress(ProcessLookupError):  # what it may have left running
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return code
