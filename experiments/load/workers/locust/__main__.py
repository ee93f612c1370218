"""The program: Locust with an open loop, the master of several workers, or the users of a Locust
file, by the plan."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from experiments.paths import ROOT
from experiments.program import program

_HERE = Path(__file__).resolve().parent
LOCUST = (
    *("locust", "-f", str(_HERE / "locustfile.py")),
    *("--headless", "--only-summary", "--users", "1", "--exit-code-on-error", "0"),
)
MASTER = ("experiments.load.workers.locust.master",)
FILE_USERS = ("experiments.load.workers.locust.file_users",)


def main() -> None:
    parser = ArgumentParser(prog="python -m experiments.load.workers.locust")
    parser.add_argument("--plan", type=Path, required=True, help="the block's plan, JSON")
    parser.add_argument("--records", type=Path, required=True, help="where records are appended")
    parser.add_argument("--control-fd", required=True, help="the runner's socket")
    options = parser.parse_args()
    plan = json.loads(options.plan.read_bytes())
    single_process = plan["load"]["workers"] == 1 and plan["remote"] is None
    module, folder = (LOCUST if single_process else MASTER), _HERE
    if plan["locustfile"] is not None:  # which imports and reads what lies beside it
        module, folder = FILE_USERS, (ROOT / plan["locustfile"]["file"]).parent
    command = program(
        *module,
        *("--plan", str(options.plan.resolve()), "--records", str(options.records.resolve())),
        *("--control-fd", options.control_fd),
    )
    # Without what would change Locust's options.
    environment = {key: value for key, value in os.environ.items() if key[:7] != "LOCUST_"}
    # Locust imports from the working directory, and reads a locust.conf or pyproject.toml there.
    os.chdir(folder)
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
