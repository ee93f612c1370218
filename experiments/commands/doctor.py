"""`sparecraft doctor`: the requirements of runs on this host, one per line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from core.errors import EnvironmentMissing, SparecraftError
from core.terminal import JsonOption, out, print_json
from experiments.commands.on_platform import Chosen
from experiments.commands.options import RESULTS, ResultsOption
from experiments.design.contracts import CONTRACTS
from experiments.design.workers import PROGRAM
from experiments.paths import ROOT
from experiments.record import manifest
from experiments.testbed import runs

_BIN = ROOT / "build" / "bin"
_CORES_MIN, _MEMORY_GB_MIN, _DISK_GB_MIN = 2, 4.0, 5.0
_SETUP, _BUILD = "Call `make setup`.", "Call `ci/build`."


@dataclass(frozen=True)
class Line:
    """One requirement; `ok` is False if runs need it and it is missing or wrong."""

    what: str
    ok: bool
    found: str
    hint: str = ""


def doctor(chosen: Chosen, results: ResultsOption = RESULTS, as_json: JsonOption = False) -> None:
    """Check prerequisites and free resources of this host, and say how to get what is missing.

    Exit code 3 if something that a run needs is missing. The agent of a machine checks which faults
    its kernel can inject once a fleet is up; a run reports that before any load.

    Example: sparecraft doctor
    """
    lines = [*_programs(), *_agents(), *_host(results), *_activity(chosen)]
    if as_json:
        print_json(
            {"ok": all(line.ok for line in lines), "lines": [asdict(line) for line in lines]}
        )
    else:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for line in lines:
            mark = "[green]ok[/green]" if line.ok else "[bold red]missing[/bold red]"
            table.add_row(mark, line.what, escape(f"{line.found}. {line.hint}".rstrip()))
        out.print(table)
    if not all(line.ok for line in lines):
        raise typer.Exit(EnvironmentMissing.exit_code)


def _programs() -> Iterator[Line]:
    versions = manifest.versions()
    yield Line("sparecraft", True, f"{versions['sparecraft']}, commit {versions['commit']}")
    for name, hint in (
        ("docker", "`make setup`, or `systemctl start docker`; the user must be in its group."),
        ("terraform", "Install Terraform 1.9 or later; `make setup` says where from."),
    ):
        works = versions[name] != "unknown"
        yield Line(
            name, works, versions[name] if works else "does not answer", "" if works else hint
        )


def _agents() -> Iterator[Line]:
    for name, option, contract in (
        ("arbiter", "--policies", "policies.json"),
        ("nodeagent", "--kinds", "faults.json"),
        ("simulator", "", ""),
        (PROGRAM, "--protocols", "load-protocols.json"),
    ):
        program = _BIN / name
        if not program.is_file():
            yield Line(name, False, "not built", _SETUP)
        elif option and _output_of(program, option) != (CONTRACTS / contract).read_text().strip():
            yield Line(name, False, f"of another version than contracts/{contract}", _BUILD)
        else:
            yield Line(name, True, f"built, {program.stat().st_size / 1e6:.1f} MB")


def _output_of(program: Path, option: str) -> str:
    try:
        process = subprocess.run(
            [program, option], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return process.stdout.strip()


def _host(results: Path) -> Iterator[Line]:
    host = manifest.host()
    cores, memory_gb = host["cores"], host["memory_gb"]
    hint = "A smaller host measures itself: use a larger one, or EC2."
    yield _at_least("cores", cores, _CORES_MIN, f"{cores}, {host['cpu']}", hint)
    yield _at_least("memory", memory_gb, _MEMORY_GB_MIN, f"{memory_gb:g} GB", hint)
    folder = next(path for path in (results.resolve(), *results.resolve().parents) if path.exists())
    if not folder.is_dir():
        yield Line("results", False, f"{folder} is no folder", "Give another one with --results.")
    free_gb = shutil.disk_usage(folder).free / 1e9
    free_text = f"{free_gb:.1f} GB free in {folder}"
    yield _at_least(
        "disk", free_gb, _DISK_GB_MIN, free_text, "Make room; a run writes some 100 MB."
    )
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    yield Line("cgroups", True, f"version {2 if unified else 1}, kernel {host['kernel']}")
    load = os.getloadavg()[0]
    busy = "Others use this host: blocks can wait for quiet seconds, `--quiet-wait 60`."
    yield Line("busy", True, f"load average {load:.1f} on {cores} cores", busy * (load > cores / 2))


def _at_least(name: str, value: float, least: float, description: str, hint: str) -> Line:
    if value >= least:
        return Line(name, True, description)
    return Line(name, False, f"{description}, {least:g} are needed", hint)


def _activity(chosen: Chosen) -> Iterator[Line]:
    active = ", ".join(f"{run.experiment} (process {run.pid})" for run in runs.active())
    yield Line("runs", True, active or "none", "One goes on at a time." if active else "")
    try:
        fleets = chosen.entry.fleets(chosen.options)
    except SparecraftError as error:
        yield Line("fleets", True, f"unknown: {error.got}")
        return
    names = ", ".join(str(fleet.get("experiment")) for fleet in fleets)
    hint = "`sparecraft down NAME` removes one." if names else ""
    yield Line("fleets", True, names or "none", hint)
