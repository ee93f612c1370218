"""Role images, built as the local stack builds them, and containers that run their start.sh.

Without the agent, on a network of their own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[3]
PREFIX = "tst-roles-"
NETWORK = f"{PREFIX}net"
SUBNET = "198.18.241.0/24"
_LIMIT_S = 1200  # of a command: building an image is the longest


def arbiter_config(at: str, server: str, tables: str = "") -> str:
    """arbiter.toml of an arbiter in front of one web server, with other tables."""
    return f"""protocol = "http"
listen = "{at}:80"
admin = "{at}:9300"
tier = "web"
policy = "round-robin"
replicas = 1
tokens = 1
connect_timeout_ms = 1000
request_timeout_ms = 6000
{tables}[[servers]]
name = "web-1"
address = "{server}"
"""


def docker(*arguments: str, check: bool = True) -> str:
    process = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    message = f"docker {' '.join(arguments)}: {process.stdout[-2000:]}{process.stderr[-2000:]}"
    assert not check or process.returncode == 0, message
    return process.stdout + process.stderr


def get(url: str, **headers: str) -> httpx.Response:
    """Get a URL of a machine; a redirect is not followed."""
    return httpx.get(url, headers=headers, timeout=30, trust_env=False)


def eventually(label: str, condition: Callable[[], bool], limit_s: float = 120) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"expected within {limit_s} s: {label}"
        time.sleep(0.1)


class Machine:
    """A container of a role, run by its start.sh."""

    def __init__(
        self,
        role: str,
        address: str,
        files: Mapping[str, Path],
        name: str = "",
        memory_mb: int = 512,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{PREFIX}{name or role}"
        flags = [x for key, value in (environment or {}).items() for x in ("-e", f"{key}={value}")]
        mounts = [x for to, path in files.items() for x in ("-v", f"{path}:{to}:ro")]
        docker("rm", "-f", self.name, check=False)
        docker(
            *("run", "-d", "--name", self.name, "--hostname", name or role, *mounts, *flags),
            *("--network", NETWORK, "--ip", address),
            *("--memory", f"{memory_mb}m", "--entrypoint", "/opt/sparecraft/role/start.sh"),
            f"{PREFIX}{role}:test",
        )

    def run(self, *command: str, check: bool = True) -> str:
        return docker("exec", self.name, *command, check=check)

    def is_ready(self) -> bool:
        command = ["docker", "exec", self.name, "/opt/sparecraft/role/ready.sh"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def wait_until_ready(self, limit_s: float = 120) -> None:
        label = f"{self.name} is ready; its log: {docker('logs', self.name)[-800:]}"
        eventually(label, self.is_ready, limit_s)

    def die_and_return(self) -> None:
        docker("kill", "--signal", "KILL", self.name)
        docker("wait", self.name)
        docker("start", self.name)
        self.wait_until_ready()


def build(role: str, context: Path) -> None:
    """Build the role's image from its folder and the files that role.json adds."""
    folder = ROOT / "infra/roles" / role
    if any(folder.rglob("pom.xml")):
        subprocess.run([ROOT / "ci/jars", folder], check=True)
    shutil.copytree(folder, context)
    config = json.loads((context / "role.json").read_text())
    for to, source in {**config.get("build", {}), "bin/nodeagent": "build/bin/nodeagent"}.items():
        sources = sorted(ROOT.glob(source))
        assert sources or source.endswith("*"), f"expected {source}: run `make build` first"
        target = context / to
        (target if to.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
        for path in sources:
            shutil.copy(path, target)
    docker("build", "-q", "--network", "host", "-t", f"{PREFIX}{role}:test", str(context))
