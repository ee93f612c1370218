"""The Docker engines under the local platform: call, list, sweep."""

from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network

import httpx

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.local.engines import HERE, Engine

LABEL = "sparecraft.experiment"
_TIMEOUT_S = 60.0
_SOCKET = "unix://"
_ONE_SAMPLE = {"stream": "false", "one-shot": "true"}


@dataclass(frozen=True)
class OwnedObject:
    """Something of ours that an engine still holds."""

    kind: str  # container | network
    name: str
    experiment: str
    on: Engine = HERE

    @property
    def is_machine(self) -> bool:
        """Tell whether it is a machine, and not the end of a network over several hosts."""
        return self.kind == "container" and not self.name.startswith(f"sc-{self.experiment}-vxlan-")

    def __str__(self) -> str:
        """Describe it, with the host if that has a name."""
        return f"{self.kind} {self.name}" + (f" on {self.on.name}" if self.on.address else "")


def check(on: Engine = HERE) -> None:
    """Raises EnvironmentMissing unless the engine answers."""
    run("version", "--format", "{{.Server.Version}}", on=on)


def state(container: str, on: Engine = HERE) -> str:
    """Return running, paused, exited, created, ... or `absent`."""
    process = _call("inspect", "--format", "{{.State.Status}}", container, on=on)
    return process.stdout.strip() if process.returncode == 0 else "absent"


def limits(container: str) -> tuple[float | None, float | None]:
    """Return a container's caps: CPUs, and memory in MB (2^20 bytes); None for a missing cap."""
    config = json.loads(run("inspect", "--format", "{{json .HostConfig}}", container))
    period, quota, memory = config["CpuPeriod"], config["CpuQuota"], config["Memory"]
    return quota / period if period and quota > 0 else None, memory / 2**20 if memory else None


def logs(container: str, lines: int = 20, on: Engine = HERE) -> str:
    """Return the last lines that a machine printed."""
    process = _call("logs", "--tail", str(lines), container, on=on)
    return (process.stdout + process.stderr).strip()


def find(experiment: str | None = None, on: Engine = HERE) -> list[OwnedObject]:
    """Return all containers and networks that carry our label, of one experiment or of all."""
    label_filter = f"label={LABEL}" + (f"={experiment}" if experiment else "")
    owned = []
    for kind, arguments in (("container", ["ps", "-a"]), ("network", ["network", "ls"])):
        output = run(*arguments, "--filter", label_filter, "--format", "{{json .}}", on=on)
        for line in output.splitlines():
            row = json.loads(line)
            labels = dict(pair.split("=", 1) for pair in row["Labels"].split(",") if "=" in pair)
            name = row.get("Names") or row["Name"]
            owned.append(OwnedObject(kind, name, labels.get(LABEL, ""), on))
    return owned


def subnets(*, but: str, on: Engine = HERE) -> set[IPv4Network]:
    """Return the ranges of the engine's networks except those of the experiment `but`."""
    identifiers = run("network", "ls", "--quiet", on=on).split()
    networks = json.loads(run("network", "inspect", *identifiers, on=on))
    ranges = [
        subnet_config.get("Subnet", "")
        for network in networks
        if (network.get("Labels") or {}).get(LABEL) != but
        for subnet_config in (network.get("IPAM") or {}).get("Config") or []
    ]
    return {IPv4Network(text) for text in ranges if "." in text}


def is_here(on: Engine = HERE) -> bool:
    return _address(on).startswith(_SOCKET)


def _address(on: Engine) -> str:
    command = ("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    return on.address or run(*command).strip()


def cpu_s(experiment: str, on: Engine = HERE) -> dict[str, float]:
    """Return the CPU seconds of each running container of the experiment since its start; none if
    the engine is another host's, or does not report them."""
    address = _address(on)
    if not address.startswith(_SOCKET):
        return {}
    filters = json.dumps({"label": [f"{LABEL}={experiment}"]})
    transport = httpx.HTTPTransport(uds=address.removeprefix(_SOCKET))
    with httpx.Client(transport=transport, base_url="http://engine", timeout=_TIMEOUT_S) as engine:
        try:
            containers = engine.get("/containers/json", params={"filters": filters}).json()
            names = [str(container["Id"]) for container in containers]
            # The engine takes a second over each, also where one is asked for a single sample.
            with ThreadPoolExecutor(max_workers=max(1, len(names))) as together:
                return dict(
                    zip(names, together.map(partial(_read_cpu_s, engine), names), strict=True)
                )
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return {}


def _read_cpu_s(engine: httpx.Client, container: str) -> float:
    answer = engine.get(f"/containers/{container}/stats", params=_ONE_SAMPLE)
    return float(answer.json()["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


def sweep(experiment: str, on: Engine = HERE) -> list[OwnedObject]:
    """Remove by label what Terraform's state does not have (after a killed run); returns it."""
    owned = find(experiment, on)
    # One at a time: side by side the engine can lose count of a network's endpoints (moby 42119).
    for container in (item.name for item in owned if item.kind == "container"):
        run("rm", "--force", "--volumes", container, on=on)
    for network in (item.name for item in owned if item.kind == "network"):
        run("network", "rm", network, on=on)
    return owned


def _call(*arguments: str, on: Engine) -> subprocess.CompletedProcess[str]:
    program = shutil.which("docker")
    if program is None:
        raise _missing_error("no such program")
    try:
        return subprocess.run(
            [program, *on.arguments, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentMissing(
            f"docker {arguments[0]} {arguments[-1]}",
            expected=f"an end within {_TIMEOUT_S:g} s",
            got="none",
            hint="Check the load of the engine; `sparecraft list` shows what runs, `sparecraft "
            "down` removes it.",
        ) from error


def run(*arguments: str, on: Engine = HERE) -> str:
    """Run a `docker` command, and return its output. Raises EnvironmentMissing if it fails."""
    process = _call(*arguments, on=on)
    if process.returncode != 0:
        output = process.stderr.strip() or process.stdout.strip()
        if "connect to the Docker daemon" in output or "connection refused" in output:
            raise _missing_error(output if on == HERE else f"host {on.name}: {output}")
        raise EnvironmentMissing(
            f"docker {arguments[0]} {arguments[-1]}",
            expected="success",
            got=output,
            hint="Restart the Docker engine to reset its count of endpoints (moby issue 42119), "
            "then `sparecraft down`."
            if "has active endpoints" in output
            else "`sparecraft list` shows what runs; `sparecraft down` removes it.",
        )
    return process.stdout


def _missing_error(got: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        "Docker",
        expected="a Docker engine that this user may use",
        got=got,
        hint="Start it (`make setup` does, or `sudo systemctl start docker`) and call again.",
    )
