"""Current clients of Redis, MySQL and memcached: how many of their reads the arbiter clones."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.tests.arbiters import ARBITER, free_ports, started

CLIENTS = ROOT / "experiments" / "tests" / "clients"
BUILT = ROOT / "build" / "clients"
READS = 200
INIT = """
CREATE DATABASE wiki;
CREATE USER wiki@'%' IDENTIFIED BY 'wiki-read';
GRANT ALL ON wiki.* TO wiki@'%';
CREATE TABLE wiki.page (id INT PRIMARY KEY, title VARCHAR(200));
INSERT INTO wiki.page VALUES (1, 'One'), (2, 'Two');
"""
PROGRAMS = {
    "python": lambda: [sys.executable, str(CLIENTS / "python" / "client.py")],
    "node": lambda: ["node", str(BUILT / "node" / "client.js")],
    "go": lambda: [str(BUILT / "go" / "client")],
}


@dataclass(frozen=True)
class Case:
    """A client; `pins` where it asks `MULTI` beside its reads."""

    language: str
    client: str
    protocol: str
    pins: bool = False


CASES = (
    Case("python", "redis-py", "redis", pins=True),
    Case("node", "node-redis", "redis", pins=True),
    Case("node", "ioredis", "redis", pins=True),
    Case("go", "go-redis", "redis", pins=True),
    Case("python", "PyMySQL", "mysql"),
    Case("python", "mysql-connector-python", "mysql"),
    Case("node", "mysql2", "mysql"),
    Case("go", "go-sql-driver", "mysql"),
    Case("python", "pymemcache", "memcached"),
)


def mariadb(port: int, folder: Path) -> list[str]:
    data = folder / f"data-{port}"
    user = "root" if os.geteuid() == 0 else str(os.environ.get("USER"))
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    base = [f"--datadir={data}", f"--user={user}"]
    install = ["mariadb-install-db", "--no-defaults", "--skip-test-db", "--skip-name-resolve"]
    subprocess.run([*install, *base], **quiet)  # type: ignore[call-overload]
    (folder / "init.sql").write_text(INIT.strip() + "\n")
    program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    where = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/{port}.sock"]
    log = [f"--init-file={folder}/init.sql", "--skip-name-resolve"]
    return [program, "--no-defaults", *base, *where, *log]


def servers(protocol: str, ports: list[int], folder: Path) -> list[list[str]]:
    """The commands of two servers with the same data."""
    first = str(ports[0])
    match protocol:
        case "redis":
            alone = ["--save", "", "--dir", str(folder), "--repl-diskless-sync-delay", "0"]
            replica = ["--replicaof", "127.0.0.1", first]
            of = {ports[0]: [], ports[1]: replica}
            return [["redis-server", "--port", str(port), *alone, *of[port]] for port in ports]
        case "memcached":
            user = ["-u", "nobody"] if os.geteuid() == 0 else []
            return [["memcached", "-l", "127.0.0.1", "-p", str(port), *user] for port in ports]
        case _:
            return [mariadb(port, folder) for port in ports]


def config(case: Case, clients: int, admin: int, ports: list[int]) -> str:
    own = {
        "mysql": '[mysql]\nuser = "wiki"\npassword = "wiki-read"\ndatabase = "wiki"\n'
        'primary = "first"\n',
        "redis": "[redis]\nread_your_writes = true\n",
    }
    listed = [f'[[servers]]\nname = "s{p}"\naddress = "127.0.0.1:{p}"\n' for p in ports]
    return (
        f'protocol = "{case.protocol}"\nlisten = "127.0.0.1:{clients}"\n'
        f'admin = "127.0.0.1:{admin}"\ntier = "test"\npolicy = "round-robin"\n'
        f"replicas = 2\ntokens = 64\n{own.get(case.protocol, '')}{''.join(listed)}"
    )


def stats(admin: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/v1/stats", timeout=10) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def run(case: Case, port: int) -> str:
    """Runs the client; its version."""
    environment = os.environ | {"PYTHONPATH": str(BUILT / "python")}
    command = [*PROGRAMS[case.language](), case.client, str(port), str(READS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[case.client for case in CASES])
def test_nine_tenths_of_the_reads_of_a_current_client_are_cloned(
    case: Case, tmp_path: Path, record_property: Any
) -> None:
    subprocess.run([str(ROOT / "ci" / "clients"), case.language], check=True)
    *ports, clients, admin = free_ports(4)
    file = tmp_path / "arbiter.toml"
    file.write_text(config(case, clients, admin, ports))
    with ExitStack() as running:
        for port, command in zip(ports, servers(case.protocol, ports, tmp_path), strict=True):
            running.enter_context(started(port, *command))
        running.enter_context(started(clients, str(ARBITER), "--config", str(file)))
        version = run(case, clients)
        told = stats(admin)
    cloned = told["requests"]["cloned"]
    record_property("version", version)
    record_property("cloned", cloned)
    pinned = told["pinned"]
    sys.stdout.write(f"{case.client} {version}: {cloned} of {READS} reads cloned, {pinned}\n")
    assert cloned >= 0.9 * READS, told
    assert told["requests"]["failed"] == 0
    assert pinned["clients"] == 0
    assert (pinned["times"] > 0) == case.pins
