"""The program: becomes Locust, or the master of several workers, as the plan asks."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from experiments.program import program

_HERE = Path(__file__).resolve().parent
LOCUST = (
    *("locust", "-f", str(_HERE / "locustfile.py")),
    *("--headless", "--only-summary", "--users", "1", "--exit-code-on-error", "0"),
)
MASTER = ("experiments.load.workers.locust.master",)


def main() -> None:
    """Carry out the plan, as the command line says."""
    parser = ArgumentParser(prog="python -m experiments.load.workers.locust")
    parser.add_argument("--plan", type=Path, required=True, help="the block's plan, JSON")
    parser.add_argument("--records", type=Path, required=True, help="where records are appended")
    parser.add_argument("--control-fd", required=True, help="the runner's socket")
    asked = parser.parse_args()
    plan = json.loads(asked.plan.read_bytes())
    one = plan["load"]["workers"] == 1 and plan["remote"] is None
    command = program(
        *(LOCUST if one else MASTER),
        *("--plan", str(asked.plan.resolve()), "--records", str(asked.records.resolve())),
        *("--control-fd", asked.control_fd),
    )
    # Without what would change Locust's options.
    environment = {key: value for key, value in os.environ.items() if key[:7] != "LOCUST_"}
    # Locust imports from the working directory, and reads a locust.conf or pyproject.toml there.
    os.chdir(_HERE)
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
