"""Current clients of Redis, MySQL and memcached: how many of their reads the arbiter clones."""

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.paths import ROOT
from experiments.tests.arbiters import ARBITER, started, stats
from experiments.tests.started import free_port

CLIENTS = ROOT / "experiments" / "tests" / "clients"
BUILT = ROOT / "build" / "clients"
READS = 200
INIT = """
CREATE DATABASE wiki;
CREATE USER wiki@'%' IDENTIFIED BY 'wiki-read';
GRANT ALL ON wiki.* TO wiki@'%';
CREATE TABLE wiki.page (id INT PRIMARY KEY, title VARCHAR(200));
INSERT INTO wiki.page VALUES (1, 'One'), (2, 'Two');
CREATE TABLE wiki.note (id INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(200));
CREATE TABLE wiki.sbtest1 (id INT PRIMARY KEY AUTO_INCREMENT, k INT, c CHAR(120), pad CHAR(60));
INSERT INTO wiki.sbtest1 SELECT seq, seq, 'c', 'pad' FROM seq_1_to_100;
"""
PACKAGED = ("php", "sysbench")  # Debian's: `ci/packages tests`
EVENT_READS = 14  # of a transaction of sysbench's: ten rows and four ranges


@dataclass(frozen=True)
class Case:
    """A client; `pins` where it asks `MULTI` beside its reads."""

    language: str
    client: str
    protocol: str
    pins: bool = False

    def command(self, port: int) -> list[str]:
        """The program, which asks at least `READS` reads."""
        end = [self.client, str(port), str(READS)]
        match self.language:
            case "python":
                return [sys.executable, str(CLIENTS / "python" / "client.py"), *end]
            case "node":
                return ["node", str(BUILT / "node" / "client.js"), *end]
            case "go":
                return [str(BUILT / "go" / "client"), *end]
            case "java":
                where = f"{BUILT}/java{os.pathsep}{BUILT}/java/*"
                return ["java", "-cp", where, "Client", *end]
            case "php":
                return ["php", str(CLIENTS / "php" / "client.php"), *end]
            case _:
                return [*SYSBENCH, f"--mysql-port={port}", self.client.split()[1], "run"]


SYSBENCH = (
    "sysbench",
    "--db-driver=mysql",
    "--mysql-host=127.0.0.1",
    "--mysql-user=wiki",
    "--mysql-password=wiki-read",
    "--mysql-db=wiki",
    "--table-size=100",
    "--time=0",
    f"--events={-(-READS // EVENT_READS)}",
)


CASES = (
    Case("python", "redis-py", "redis", pins=True),
    Case("node", "node-redis", "redis", pins=True),
    Case("node", "ioredis", "redis", pins=True),
    Case("go", "go-redis", "redis", pins=True),
    Case("python", "PyMySQL", "mysql"),
    Case("python", "mysql-connector-python", "mysql"),
    Case("node", "mysql2", "mysql"),
    Case("go", "go-sql-driver", "mysql"),
    Case("java", "Jedis", "redis", pins=True),
    Case("java", "Lettuce", "redis", pins=True),
    Case("java", "Connector/J", "mysql"),
    Case("php", "PDO", "mysql"),
    Case("sysbench", "sysbench oltp_read_only", "mysql"),
    Case("sysbench", "sysbench oltp_read_write", "mysql"),
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
            return [mariadb(ports[0], folder), [*mariadb(ports[1], folder), "--read-only"]]


def config(case: Case, clients: int, admin: int, ports: list[int]) -> str:
    own = {
        "mysql": '[mysql]\nuser = "wiki"\npassword = "wiki-read"\ndatabase = "wiki"\n'
        'primary = "first"\nreads_after_write = "replicas"\n',
        "redis": "[redis]\nread_your_writes = true\n",
    }
    listed = [f'[[servers]]\nname = "s{p}"\naddress = "127.0.0.1:{p}"\n' for p in ports]
    return (
        f'protocol = "{case.protocol}"\nlisten = "127.0.0.1:{clients}"\n'
        f'admin = "127.0.0.1:{admin}"\ntier = "test"\npolicy = "round-robin"\n'
        f"replicas = 2\ntokens = 64\n{own.get(case.protocol, '')}{''.join(listed)}"
    )


def run(case: Case, port: int) -> str:
    """Runs the client; its version."""
    environment = os.environ | {"PYTHONPATH": str(BUILT / "python")}
    command = case.command(port)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()[1 if case.language == "sysbench" else 0]


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[case.client for case in CASES])
def test_nine_tenths_of_the_reads_of_a_current_client_are_cloned(
    case: Case, tmp_path: Path, record_property: Any
) -> None:
    if case.language not in PACKAGED:
        subprocess.run([str(ROOT / "ci" / "clients"), case.language], check=True)
    *ports, clients, admin = (free_port() for _ in range(4))
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
