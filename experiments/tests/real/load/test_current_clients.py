"""Current clients of Redis, MySQL and memcached: how many of their reads the arbiter clones, and
their lines for right and for wrong replies in the soak (`ci/soak`)."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
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
INSERT INTO wiki.sbtest1 SELECT seq, seq, 'c', 'pad' FROM wiki.seq_1_to_100;
"""
PACKAGED = ("php", "sysbench")  # clients from Debian: `ci/packages tests`
EVENT_READS = 14  # reads of a sysbench transaction: ten rows and four ranges
SOAK = ROOT / "agents" / "testkit" / "src" / "soak"
SQL = (SOAK / "mysql.rs").read_text().replace("\\\n", "")
SOAK_CLIENTS = re.findall(
    r'\("(python|node|go|java)", "(.+?)"\)', (SOAK / "clients.rs").read_text()
)
TABLES = re.findall(r"[A-Z].+ wiki\.(?:article|proposal) .+;\n", SQL)
MYSQL = ("PyMySQL", "mysql2", "go-sql-driver", "Connector/J")
REPLIES = 110  # more than a session, which reads and writes


@dataclass(frozen=True)
class Case:
    """A client; `pins` is true where it sends `MULTI` between its reads."""

    language: str
    client: str
    protocol: str
    pins: bool = False

    def command(self, port: int) -> list[str]:
        """Command of the program, which sends at least `READS` reads."""
        arguments = [self.client, str(port), str(READS)]
        match self.language:
            case "python":
                return [sys.executable, str(CLIENTS / "python" / "client.py"), *arguments]
            case "node":
                return ["node", str(BUILT / "node" / "client.js"), *arguments]
            case "go":
                return [str(BUILT / "go" / "client"), *arguments]
            case "java":
                class_path = f"{BUILT}/java{os.pathsep}{BUILT}/java/*"
                return ["java", "-cp", class_path, "Client", *arguments]
            case "php":
                return ["php", str(CLIENTS / "php" / "client.php"), *arguments]
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
    options = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    base = [f"--datadir={data}", f"--user={user}"]
    install = ["mariadb-install-db", "--no-defaults", "--skip-test-db", "--skip-name-resolve"]
    subprocess.run([*install, *base], **options)  # type: ignore[call-overload]
    (folder / "init.sql").write_text(INIT.strip() + "\n")
    program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    address = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/{port}.sock"]
    log = [f"--init-file={folder}/init.sql", "--skip-name-resolve"]
    return [program, "--no-defaults", *base, *address, *log]


def servers(protocol: str, ports: list[int], folder: Path) -> list[list[str]]:
    """The commands of two servers with the same data."""
    primary_port = str(ports[0])
    match protocol:
        case "redis":
            options = ["--save", "", "--dir", str(folder), "--repl-diskless-sync-delay", "0"]
            replica = ["--replicaof", "127.0.0.1", primary_port]
            replica_options = {ports[0]: [], ports[1]: replica}
            return [
                ["redis-server", "--port", str(port), *options, *replica_options[port]]
                for port in ports
            ]
        case "memcached":
            user = ["-u", "nobody"] if os.geteuid() == 0 else []
            return [["memcached", "-l", "127.0.0.1", "-p", str(port), *user] for port in ports]
        case _:
            return [mariadb(ports[0], folder), [*mariadb(ports[1], folder), "--read-only"]]


def config(case: Case, clients: int, admin: int, ports: list[int]) -> str:
    sections = {
        "mysql": '[mysql]\nuser = "wiki"\npassword = "wiki-read"\ndatabase = "wiki"\n'
        'primary = "first"\nreads_after_write = "replicas"\n',
        "redis": "[redis]\nread_your_writes = true\n",
    }
    tables = [f'[[servers]]\nname = "s{port}"\naddress = "127.0.0.1:{port}"\n' for port in ports]
    return (
        f'protocol = "{case.protocol}"\nlisten = "127.0.0.1:{clients}"\n'
        f'admin = "127.0.0.1:{admin}"\ntier = "test"\npolicy = "round-robin"\n'
        f"replicas = 2\ntokens = 64\nrequest_timeout_ms = 60000\nconnect_timeout_ms = 60000\n"
        f"{sections.get(case.protocol, '')}{''.join(tables)}"
    )


def run(case: Case, port: int) -> str:
    """Run the client; return its version."""
    environment = os.environ | {"PYTHONPATH": str(BUILT / "python")}
    command = case.command(port)
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout.split()[1 if case.language == "sysbench" else 0]


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
        counters = stats(admin)
    cloned = counters["requests"]["cloned"]
    record_property("version", version)
    record_property("cloned", cloned)
    pinned = counters["pinned"]
    sys.stdout.write(f"{case.client} {version}: {cloned} of {READS} reads cloned, {pinned}\n")
    assert cloned >= 0.9 * READS, counters
    assert counters["requests"]["failed"] == 0
    assert pinned["clients"] == 0
    assert (pinned["times"] > 0) == case.pins


def lines(language: str, client: str, port: int, count: int) -> list[str]:
    """Return the first lines of a client, which then ends with its input."""
    command = [str(BUILT / language / "soak"), client, str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            head = list(islice(process.stdout, count))
            process.stdin.close()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    return head


def server(client: str, port: int, folder: Path) -> list[str]:
    if client not in MYSQL:
        return servers("redis", [port, free_port()], folder)[0]
    command = mariadb(port, folder)
    with (folder / "init.sql").open("a") as init:
        init.writelines(TABLES)
    return command


def spoil(client: str, port: int) -> None:
    """Give all rows or keys that the client reads another text."""
    if client in MYSQL:
        account = ["--host=127.0.0.1", f"--port={port}", "--user=wiki", "--password=wiki-read"]
        command = ["mariadb", *account, "wiki"]
        statements = "UPDATE article SET text = 'another'"
    else:
        command = ["redis-cli", "-p", str(port)]
        statements = "\n".join(f"SET {client}:{number} another" for number in range(999))
    subprocess.run(command, input=statements, check=True, text=True, capture_output=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "client"), SOAK_CLIENTS, ids=[client for _, client in SOAK_CLIENTS]
)
def test_a_client_of_the_soak_tells_wrong_replies_from_right(
    language: str, client: str, tmp_path: Path
) -> None:
    subprocess.run([str(ROOT / "ci" / "clients"), language], check=True)
    port = free_port()
    with started(port, *server(client, port, tmp_path)):
        assert lines(language, client, port, REPLIES) == ["right\n"] * REPLIES
        spoil(client, port)
        (line,) = lines(language, client, port, 1)
        assert line.startswith("wrong ")
        assert "another" in line
