"""The dashboards' JSON: written, or compared with the committed files.

`python -m grafana.build` writes; `python -m grafana.build --check` exits 1 when it would change.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from core.json_object import format_json
from grafana import dashboard, nights, queries, statistics

GENERATED = Path(__file__).parent / "generated"


def render() -> dict[Path, str]:
    """Return each generated file and its text."""
    boards = {
        queries.UID: dashboard.experiment_dashboard(),
        statistics.UID: statistics.statistics_dashboard(),
        nights.UID: nights.nights_dashboard(),
    }
    return {
        GENERATED / f"{uid}.json": format_json(
            json.loads(json.dumps(board, cls=JSONEncoder, sort_keys=True))
        )
        + "\n"
        for uid, board in boards.items()
    }


def stale() -> str:
    """Return the difference between the generated files and the code; empty if there is none."""
    changes: list[str] = []
    for path, text in render().items():
        committed = path.read_text() if path.exists() else ""
        changes += difflib.unified_diff(
            committed.splitlines(),
            text.splitlines(),
            str(path),
            "made by the code",
            lineterm="",
            n=1,
        )
    return "\n".join(changes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m grafana.build", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    if not parser.parse_args().check:
        for path, text in render().items():
            path.write_text(text)
        return 0
    if difference := stale():
        print(difference)
        print("Generated dashboards differ: run `python -m grafana.build`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
