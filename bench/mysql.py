"""The MySQL arbiter beside HAProxy in TCP mode: same servers, same client, one thread each.

Turn by turn, `sysbench oltp_point_select` asks for rows by their key, as text. The machine's cores
are shared by client, servers and proxy, so statements per second say little about the proxy. The
ratio is of statements per second of the proxy's own CPU time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from bench.process import arbiter, extract, haproxy, program, run_program
from bench.turns import compare, measure_turns

SERVERS = (22001, 22002)
HAPROXY, ARBITER_1, ARBITER_2 = 22010, 22011, 22012
CONNECTIONS = (1, 32)
TURNS = 15
TURN_S = 1
ROWS = 10_000
ACCOUNT = ("--mysql-user=wiki", "--mysql-password=wiki-read", "--mysql-db=bench")
WORKLOAD = (
    "oltp_point_select",
    "--db-driver=mysql",
    "--db-ps-mode=disable",
    f"--table-size={ROWS}",
)
COMMAND = f"sysbench {' '.join(WORKLOAD)} --threads=N --time={TURN_S} run"

_INIT = """CREATE DATABASE bench;
CREATE USER wiki@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('wiki-read');
GRANT ALL ON *.* TO wiki@'%';
"""


def measure(work: Path) -> dict[str, object]:
    """Return statements per second, also per second of CPU time, medians over turns."""
    with ExitStack() as stack:
        for port in SERVERS:
            stack.enter_context(_run_mariadb(work / f"mariadb-{port}", port))
        peer = haproxy(work, "mode tcp", HAPROXY, SERVERS, _login_check(HAPROXY))
        proxies = {
            "haproxy": (HAPROXY, stack.enter_context(peer)),
            "arbiter": (ARBITER_1, stack.enter_context(_run_arbiter(work, ARBITER_1, 1))),
            "arbiter_r2": (ARBITER_2, stack.enter_context(_run_arbiter(work, ARBITER_2, 2))),
        }
        rows = {str(count): _compare(proxies, count) for count in CONNECTIONS}
    busiest = rows[str(CONNECTIONS[-1])]
    return {
        "command": COMMAND,
        "ratio": busiest["ratio"],
        "ratio_range": busiest["ratio_range"],
        "connections": rows,
    }


def _compare(proxies: dict[str, tuple[int, int]], connections: int) -> dict[str, object]:
    turns = measure_turns(proxies, TURNS, lambda port: _measure_turn(port, connections))
    return compare(
        *(turns, ("per_s", "per_cpu_s"), "haproxy"),
        ratio=("arbiter", "per_cpu_s"),
        ratio_wall=("arbiter", "per_s"),
        ratio_r2=("arbiter_r2", "per_cpu_s"),
    )


def _measure_turn(port: int, connections: int) -> dict[str, float]:
    text = _run_sysbench(port, f"--threads={connections}", f"--time={TURN_S}", "run")
    errors = int(extract("sysbench", r"ignored errors:\s+(\d+)", text))
    if errors:
        raise ValueError(f"port {port}: expected no errors, got {errors}")
    return {
        "per_s": float(extract("sysbench", r"queries:\s+\d+\s+\(([\d.]+) per sec", text)),
        "requests": float(extract("sysbench", r"queries performed:(?s:.*?)total:\s+(\d+)", text)),
    }


def _run_sysbench(port: int, *arguments: str) -> str:
    command = ["sysbench", *WORKLOAD, *ACCOUNT, "--mysql-host=127.0.0.1", f"--mysql-port={port}"]
    process = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=TURN_S + 60, check=False
    )
    if process.returncode != 0:
        raise RuntimeError(f"sysbench, port {port}: expected success, got {process.stdout}")
    return process.stdout


def _login_check(port: int) -> Callable[[], bool]:
    command = ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{port}", "-uwiki", "-pwiki-read"]

    def is_up() -> bool:
        process = subprocess.run([*command, "-e", "SELECT 1"], capture_output=True, check=False)
        return process.returncode == 0

    return is_up


@contextmanager
def _run_mariadb(folder: Path, port: int) -> Iterator[None]:
    folder.mkdir()
    data = f"--datadir={folder / 'data'}"
    install = [program("mariadb-install-db"), "--no-defaults", "--user=root", data]
    subprocess.run(
        [*install, "--skip-test-db", "--auth-root-authentication-method=normal"],
        capture_output=True,
        check=True,
    )
    (folder / "init.sql").write_text(_INIT)
    command = [program("mariadbd"), "--no-defaults", "--user=root", data, f"--port={port}"]
    command += ["--bind-address=127.0.0.1", "--skip-name-resolve", "--performance-schema=OFF"]
    command += [f"--socket={folder / 'socket'}", f"--init-file={folder / 'init.sql'}"]
    with run_program([*command, f"--tmpdir={folder}"], folder / "log", _login_check(port)):
        _run_sysbench(port, "prepare")
        yield


def _run_arbiter(
    work: Path, port: int, replicas: int, more: str = ""
) -> AbstractContextManager[int]:
    session = '[mysql]\nuser = "wiki"\npassword = "wiki-read"\ndatabase = "bench"\n'
    return arbiter(work, "mysql", port, replicas, SERVERS, _login_check(port), more + session)
