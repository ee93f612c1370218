"""The Docker engine under the local platform: call, list, sweep."""

from __future__ import annotations

import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network

import httpx

from experiments.errors import EnvironmentMissing

LABEL = "sparecraft.experiment"
_TIMEOUT_S = 60.0
_ONE_SAMPLE = {"stream": "false", "one-shot": "true"}


@dataclass(frozen=True)
class Found:
    """Something of ours that the engine still holds."""

    kind: str  # container | network
    name: str
    experiment: str


def check() -> None:
    """Raises EnvironmentMissing unless a Docker engine answers."""
    run("version", "--format", "{{.Server.Version}}")


def state(container: str) -> str:
    """running, paused, exited, created, ... or `absent`."""
    done = _call("inspect", "--format", "{{.State.Status}}", container)
    return done.stdout.strip() if done.returncode == 0 else "absent"


def logs(container: str, lines: int = 20) -> str:
    """The last lines that a machine printed."""
    done = _call("logs", "--tail", str(lines), container)
    return (done.stdout + done.stderr).strip()


def find(experiment: str | None = None) -> list[Found]:
    """All containers and networks that carry our label, of one experiment or of all."""
    wanted = f"label={LABEL}" + (f"={experiment}" if experiment else "")
    found = []
    for kind, arguments in (("container", ["ps", "-a"]), ("network", ["network", "ls"])):
        out = run(*arguments, "--filter", wanted, "--format", "{{json .}}")
        for line in out.splitlines():
            row = json.loads(line)
            labels = dict(pair.split("=", 1) for pair in row["Labels"].split(",") if "=" in pair)
            name = row.get("Names") or row["Name"]
            found.append(Found(kind, name, labels.get(LABEL, "")))
    return found


def subnets(*, but: str) -> set[IPv4Network]:
    """The ranges of the engine's networks but those of the experiment `but`."""
    identifiers = run("network", "ls", "--quiet").split()
    networks = json.loads(run("network", "inspect", *identifiers))
    ranges = [
        one.get("Subnet", "")
        for network in networks
        if (network.get("Labels") or {}).get(LABEL) != but
        for one in (network.get("IPAM") or {}).get("Config") or []
    ]
    return {IPv4Network(text) for text in ranges if "." in text}


def cpu_s(experiment: str) -> dict[str, float]:
    """CPU seconds of each running container of the experiment since its start; none where the
    engine is another host's, or does not say."""
    host = run("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
    if not host.startswith("unix://"):
        return {}
    wanted = json.dumps({"label": [f"{LABEL}={experiment}"]})
    transport = httpx.HTTPTransport(uds=host.removeprefix("unix://"))
    with httpx.Client(transport=transport, base_url="http://engine", timeout=_TIMEOUT_S) as engine:
        try:
            listed = engine.get("/containers/json", params={"filters": wanted}).json()
            names = [str(container["Id"]) for container in listed]
            # The engine takes a second over each, also where one is asked for a single sample.
            with ThreadPoolExecutor(max_workers=max(1, len(names))) as together:
                return dict(zip(names, together.map(partial(_spent_s, engine), names), strict=True))
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return {}


def _spent_s(engine: httpx.Client, container: str) -> float:
    answer = engine.get(f"/containers/{container}/stats", params=_ONE_SAMPLE)
    return float(answer.json()["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


def sweep(experiment: str) -> list[Found]:
    """Remove by label whatever Terraform's state does not know (a run that was killed)."""
    found = find(experiment)
    # One at a time: side by side the engine can lose count of a network's endpoints (moby 42119).
    for container in (f.name for f in found if f.kind == "container"):
        run("rm", "--force", "--volumes", container)
    for network in (f.name for f in found if f.kind == "network"):
        run("network", "rm", network)
    return found


def _call(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("docker")
    if program is None:
        raise _missing("no such program")
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_TIMEOUT_S,
        start_new_session=True,
        check=False,
    )


def run(*arguments: str) -> str:
    """One `docker` command and what it prints. Raises EnvironmentMissing where it fails."""
    done = _call(*arguments)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        if "connect to the Docker daemon" in said or "connection refused" in said:
            raise _missing(said)
        raise EnvironmentMissing(
            f"docker {arguments[0]} {arguments[-1]}",
            expected="success",
            came=said,
            do="Restart the Docker engine, which counts its endpoints anew (moby issue 42119), "
            "then `sparecraft down`."
            if "has active endpoints" in said
            else "`sparecraft list` shows what runs; `sparecraft down` removes it.",
        )
    return done.stdout


def _missing(came: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        "Docker",
        expected="a Docker engine that this user may use",
        came=came,
        do="Start it (`make setup` does, or `sudo systemctl start docker`) and call again.",
    )
