"""`sparecraft list`: the designs, the fleets that are up, and the runs that were made."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from experiments.commands.options import (
    RESULTS,
    JsonOption,
    PlatformName,
    PlatformOption,
    RegionOption,
    ResultsOption,
    only_ec2,
    out,
)
from experiments.errors import EnvironmentMissing
from experiments.platform import docker, tagged
from experiments.platform.aws import Aws
from optimizer.commands.output import print_json


def add_to(app: typer.Typer) -> None:
    """Add `sparecraft list`."""
    app.command(name="list")(list_)


def list_(
    platform: PlatformOption = PlatformName.local,
    region: RegionOption = None,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """The designs, the fleets that are up, and the runs in the results folder.

    With `--platform ec2` the fleets are those of the AWS account in one region.
    """
    only_ec2(platform, region=region)
    fleets = _local_fleets() if platform is PlatformName.local else ec2_fleets(Aws(region))
    found = {"designs": _designs(), "fleets": fleets, "runs": _runs(results)}
    if as_json:
        print_json(found)
        return
    for title, rows in found.items():
        _print_rows(title, rows)


def ec2_fleets(aws: Aws) -> list[dict[str, Any]]:
    """What carries our tags, by experiment."""
    found = tagged.find(aws)
    rows = []
    for name in sorted({one.experiment for one in found}):
        things = [one for one in found if one.experiment == name]
        states = Counter(one.state for one in things if one.kind == "instance")
        ends = [one.expires.astimezone(UTC) for one in things if one.expires]
        rows.append(
            {
                "experiment": name,
                "machines": sum(states.values()),
                "running": states["running"],
                "things": len(things),
                "expires": f"{max(ends):%Y-%m-%dT%H:%M:%SZ}" if ends else "",
                "region": aws.region,
            }
        )
    return rows


def _designs() -> list[dict[str, Any]]:
    from experiments.spec import designs_available

    return [{"name": name} for name in designs_available()]


def _local_fleets() -> list[dict[str, Any]]:
    try:
        found = docker.find()
    except EnvironmentMissing:
        return []
    names = sorted({thing.experiment for thing in found})
    machines = {n: [f for f in found if f.experiment == n and f.kind == "container"] for n in names}
    return [{"experiment": name, "machines": len(machines[name])} for name in names]


def _runs(results: Path) -> list[dict[str, Any]]:
    rows = []
    for path in sorted(results.glob("*/*/summary.json")):
        if path.parent.is_symlink():
            continue
        summary = json.loads(path.read_text())
        rows.append(
            {
                "experiment": summary["experiment"],
                "run": path.parent.name,
                "valid": summary["valid"],
                "slo_met": summary["slo"]["met"],
                "folder": str(path.parent),
            }
        )
    for path in sorted(results.glob("*/*/capacity.json")):
        if not path.parent.is_symlink():
            capacity = json.loads(path.read_text())
            rows.append(
                {
                    "experiment": capacity["experiment"],
                    "run": path.parent.name,
                    "valid": capacity["complete"],
                    "slo_met": None,
                    "folder": str(path.parent),
                }
            )
    return rows


def _print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        out.print(f"[bold]{title}[/bold]: none")
        return
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    out.print(table)
