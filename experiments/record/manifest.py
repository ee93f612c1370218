"""manifest.json: specification, fleet and host of a run, and the runner's verdicts."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

from core.json_object import JsonObject
from experiments.design import Design
from experiments.design.feasible import infeasible
from experiments.design.locustfile import locustfile_json, read_locustfile
from experiments.paths import ROOT

SCHEMA = 1


class Host(TypedDict):
    """The machine that carried everything."""

    cpu: str
    cores: int
    memory_gb: float
    kernel: str


@dataclass
class Verdict:
    """One of measurement, injection, revert, cleanup; true until a reason against it is found."""

    reasons: list[str] = field(default_factory=list)

    def fail(self, reason: str) -> None:
        """Record a reason, once."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    def to_json(self) -> dict[str, object]:
        return {"ok": not self.reasons, "reasons": self.reasons}


@dataclass
class Verdicts:
    """The four verdicts; they are separate, so that a failed clean-up never voids data."""

    measurement: Verdict = field(default_factory=Verdict)
    injection: Verdict = field(default_factory=Verdict)
    revert: Verdict = field(default_factory=Verdict)
    cleanup: Verdict = field(default_factory=Verdict)

    def to_json(self) -> dict[str, object]:
        return {name: verdict.to_json() for name, verdict in vars(self).items()}


def spec_json(design: Design, section: Mapping[str, Any] | None = None) -> JsonObject:
    """Return the complete validated specification.

    It has the experiment's tables, the fleet under `fleet`, the kind's own table (`section`) under
    the kind's name, and the roles of the tiers under `roles`.
    """
    spec = design.experiment.model_dump(mode="json")
    spec["load"] = design.experiment.load.model_dump(mode="json", exclude_none=True)
    spec["rates"] = design.experiment.rates.model_dump(exclude_none=True)
    spec["fleet"] = design.fleet.model_dump(mode="json")
    roles = {tier.role for tier in design.fleet.tiers.values()}
    spec["roles"] = {
        name: design.roles[name].model_dump(mode="json", exclude_defaults=True)
        for name in sorted(roles)
    }
    load = design.experiment.load
    if load.locustfile is not None:
        locustfile = read_locustfile(design.directory / load.locustfile)
        spec["locustfile"] = locustfile_json(locustfile)
    return {**spec, **(section or {})}


def infeasible_json(design: Design) -> list[dict[str, object]]:
    """Return the arms that run though they break one of sPARE's limits, each with the figure."""
    return [asdict(breach) for breach in infeasible(design.experiment, design.fleet)]


def versions() -> dict[str, str]:
    """Return the versions of Sparecraft (with commit) and of the software that affects figures."""
    names = ("sparecraft", "locust", "numpy", "polars", "pyomo", "highspy")
    version_of = {name: metadata.version(name) for name in names}
    version_of["python"] = platform.python_version()
    version_of["docker"] = _first_line("docker", "version", "--format", "{{.Server.Version}}")
    version_of["terraform"] = _first_line("terraform", "version").removeprefix("Terraform v")
    version_of["commit"] = _first_line("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    return version_of


def host() -> Host:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_gb": round(memory / 2**30, 1),
        "kernel": platform.release(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _first_line(*command: str) -> str:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return process.stdout.strip().split("\n")[0]
