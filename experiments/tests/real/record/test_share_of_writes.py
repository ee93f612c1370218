"""The fit finds a known share of writes in requests to real servers behind an arbiter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from experiments.load.client import ByteClient
from experiments.load.protocols.memcached import MemcachedClient
from experiments.load.protocols.redis import RedisClient
from experiments.record.records import ARBITERS, arbiter_rows, write_table
from experiments.tests.arbiters import ARBITER, started, stats
from experiments.tests.started import free_port
from experiments.tests.stores import MEMCACHED, REDIS, client
from experiments.tests.stores import started as server
from optimizer.fit import fit, read_results

POLLED, REQUESTS = 50, 1_000  # requests between polls, and in all
EVERY, EACH_S = 5, 0.02  # every fifth request writes; seconds between requests
KEY = "entry:000001"
REPLICA = ("--replicaof", "127.0.0.1")
CASES: dict[str, tuple[type[ByteClient], tuple[str, ...], str, str]] = {
    "redis": (RedisClient, REDIS, f"HSET {KEY} field0 100", f"HGETALL {KEY}"),
    "memcached": (MemcachedClient, MEMCACHED, f"set {KEY} 100", f"get {KEY}"),
}


def config(protocol: str, clients: int, admin: int, ports: list[int]) -> str:
    tables = [f'[[servers]]\nname = "store-{number}"\naddress = "127.0.0.1:{port}"\n'
              for number, port in enumerate(ports, start=1)]  # fmt: skip
    return (
        f'protocol = "{protocol}"\nlisten = "127.0.0.1:{clients}"\nadmin = "127.0.0.1:{admin}"\n'
        f'tier = "store"\npolicy = "round-robin"\nreplicas = 2\ntokens = 64\n{"".join(tables)}'
    )


def asked(connection: ByteClient, admin: int, write: str, read: str) -> Iterator[dict[str, Any]]:
    """Send the mix of requests; yield rows of arbiters.parquet."""
    for index in range(REQUESTS + 1):
        if index % POLLED == 0:
            yield from arbiter_rows(index * EACH_S, stats(admin))
        text = write if index % EVERY == 0 else read
        answer = connection.fetch(connection.request(text), b"", time.monotonic())
        assert answer.outcome == "ok", text


def written(folder: Path, protocol: str, rows: list[dict[str, Any]]) -> None:
    """Write the files of a run with these rows, as far as the fit reads them."""
    write_table(folder / "arbiters.parquet", pl.DataFrame(rows, schema=ARBITERS), ARBITERS)
    times = pl.Series([index * EACH_S for index in range(REQUESTS + 1)])
    pl.DataFrame({"intended_s": times}).with_columns(
        arm=pl.lit("one"), repeat=pl.lit(0), phase=pl.lit("measure"), latency_ms=pl.lit(1.0),
        name=pl.lit("request"), done_s=pl.col("intended_s"), outcome=pl.lit("ok"),
    ).write_parquet(folder / "requests.parquet")  # fmt: skip
    machines = [{"name": f"store-{number}", "tier": "store", "role": protocol} for number in (1, 2)]
    seconds = [float(second) for second in range(int(REQUESTS * EACH_S) + 1)]
    pl.concat(
        pl.DataFrame({"time_s": seconds}).with_columns(
            machine=pl.lit(machine["name"]), tier=pl.lit("store"), cpu_percent=pl.lit(10.0),
            cpu_cores=pl.lit(0.1), net_rx_mbps=pl.lit(0.1), net_tx_mbps=pl.lit(0.1),
        ) for machine in machines
    ).write_parquet(folder / "hosts.parquet")  # fmt: skip
    (folder / "events.jsonl").write_text(
        '{"what": "arm", "kind": "one", "machine": "", "time_s": 0.0, "action": "start"}\n'
    )
    machine = {"cpus": 1.0, "memory_mb": 256, "nic_mbps": 100, "disk_mbps": 50}
    tiers = {"store": {"role": protocol, "calls": [], **machine}}
    spec = {"arms": {"one": {}}, "fleet": {"tiers": tiers}, "roles": {protocol: {}}}
    manifest = {"schema": 1, "spec": spec, "fleet": {"machines": machines}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("protocol", CASES)
def test_the_share_of_writes_of_a_known_mix_is_found(protocol: str, tmp_path: Path) -> None:
    kind, command, write, read = CASES[protocol]
    clients, admin = free_port(), free_port()
    with ExitStack() as running:
        options = ("--dir", str(tmp_path)) if protocol == "redis" else ()
        primary_port = running.enter_context(server(*command, *options))
        replication = (*REPLICA, str(primary_port)) if protocol == "redis" else ()
        replica_port = running.enter_context(server(*command, *options, *replication))
        file = tmp_path / "arbiter.toml"
        file.write_text(config(protocol, clients, admin, [primary_port, replica_port]))
        running.enter_context(started(admin, str(ARBITER), "--config", str(file)))
        connection = client(kind, clients)
        rows = list(asked(connection, admin, write, read))
        connection.close()
    written(tmp_path, protocol, rows)
    (tier,) = fit(read_results(tmp_path)).tiers
    assert tier.write_share.samples == REQUESTS
    assert tier.write_share.value == pytest.approx(1 / EVERY)
    assert tier.one_share.value == 0.0
    assert tier.writes_everywhere
    # Both servers execute each request: Redis sends a write to one, and both apply it.
    assert tier.processing_s.samples == pytest.approx(2 * REQUESTS, rel=0.05)
