"""Servers that need no root are users of their own, with what they need and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from machines import PREFIX, ROOT, Machine, arbiter_config, build, docker, eventually

pytestmark = pytest.mark.timeout(1800)

BASE = "sparecraft/base:bookworm"
NOTHING, NET_BIND_SERVICE, SYS_NICE = 0, 1 << 10, 1 << 23


def held(status: str) -> tuple[int, int]:
    """Return user and effective capabilities of a process, from /proc/PID/status."""
    lines: Mapping[str, str] = dict(
        line.split(":\t", 1) for line in status.splitlines() if ":\t" in line
    )
    return int(lines["Uid"].split()[1]), int(lines["CapEff"], 16)


def test_redis_is_a_user_who_may_nothing(machine: Callable[..., Machine], tmp_path: Path) -> None:
    env = tmp_path / "role.env"
    env.write_text("ROLE=redis\n")
    server = machine("redis", "198.18.241.60", {"/etc/sparecraft/role.env": env}, "redis-user")
    user, capabilities = held(server.run("cat", "/proc/1/status"))
    assert str(user) == server.run("id", "-u", "redis").strip() != "0"
    assert capabilities == NOTHING
    assert server.run("stat", "-c", "%U", "/opt/sparecraft/data").strip() == "redis"
    server.die_and_return()


def test_an_arbiter_is_a_user_who_may_listen_on_port_80(tmp_path: Path) -> None:
    build("arbiter", tmp_path / "context")
    config, name = tmp_path / "arbiter.toml", f"{PREFIX}arbiter-user"
    config.write_text(arbiter_config("127.0.0.1", "127.0.0.1:81"))
    docker("rm", "-f", name, check=False)
    docker(
        *("run", "-d", "--name", name, "-v", f"{config}:/etc/sparecraft/arbiter.toml:ro"),
        *("--sysctl", "net.ipv4.ip_unprivileged_port_start=1024", "--network", "none"),
        *("--entrypoint", "/opt/sparecraft/role/start.sh", f"{PREFIX}arbiter:test"),
    )
    try:
        ready = "/opt/sparecraft/role/ready.sh && echo ready || true"
        eventually(
            f"{name} is ready: {docker('logs', name)}",
            lambda: "ready\n" in docker("exec", name, "sh", "-c", ready),
        )
        user, capabilities = held(docker("exec", name, "cat", "/proc/1/status"))
        assert str(user) == docker("exec", name, "id", "-u", "arbiter").strip() != "0"
        assert capabilities == NET_BIND_SERVICE
        assert ":80 " in docker("exec", name, "ss", "-ltn")
    finally:
        docker("rm", "-f", name)


def test_a_load_worker_is_a_user_who_may_come_before_others(tmp_path: Path) -> None:
    """Its start.sh as it is; in the place of Python, what tells who it was started as."""
    env, python = tmp_path / "role.env", tmp_path / "python"
    env.write_text("LOAD_MASTER=198.18.0.1\n")
    python.write_text("#!/bin/sh\nrenice -n -10 -p $$ >&2 || exit 1\ncat /proc/$$/status\n")
    python.chmod(0o755)
    mounts = {
        "/opt/sparecraft/role": ROOT / "infra/roles/load",
        "/etc/sparecraft/role.env": env,
        "/opt/sparecraft/venv/bin/python": python,
    }
    account = "grep -A 1 '^getent' /opt/sparecraft/role/install.sh | sh -e"
    status = docker(
        *("run", "--rm", "--network", "none", "--cap-add", "SYS_NICE"),
        *(x for to, path in mounts.items() for x in ("-v", f"{path}:{to}:ro")),
        *("-w", "/opt/sparecraft/bundle/source", BASE),
        *("sh", "-c", f"{account} && exec /opt/sparecraft/role/start.sh"),
    )
    user, capabilities = held(status)
    assert 0 < user < 1000
    assert capabilities == SYS_NICE
    assert "NoNewPrivs:\t1" in status
