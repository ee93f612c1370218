"""The files of a run, written so that a crash or a full disk never destroys earlier data.

A whole file is written under another name, synced, and renamed. Events are appended one line at a
time, each synced, so that injections are always known.
"""

from __future__ import annotations

import errno
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired

import polars as pl
from hdrh.histogram import HdrHistogram
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from core.errors import DiskFull
from core.runfiles.manifest import manifest_if_any
from core.runfiles.requests import measured
from core.statistics.percentiles import counted

OUTCOMES = (
    "ok",
    "aborted_connection",
    "connection_error",
    "time_out",
    "bad_status",
    "bad_content",
    "dropped",
    "unreached",  # a step of a session after one that failed
    "lost",  # with the load worker that was to report it
)


@with_config(ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class RequestRecord(TypedDict):
    """A request as a load worker reports it; times in seconds since the run's t0. The reason says
    what a complete answer lacked, where a worker knows."""

    phase: str
    index: int
    name: str
    intended_s: float
    sent_s: float | None
    done_s: float | None
    latency_ms: float | None
    lag_ms: float | None
    outcome: str
    status: int
    bytes: int
    reason: NotRequired[str]


REQUESTS = pl.Schema(
    {
        "arm": pl.String,
        "repeat": pl.Int32,
        "pair": pl.Int32,
        "phase": pl.String,
        "index": pl.Int64,
        "user": pl.String,
        "name": pl.String,
        "intended_s": pl.Float64,
        "sent_s": pl.Float64,  # null for a lost or unreached request
        "done_s": pl.Float64,  # null for a dropped, lost or unreached request
        "latency_ms": pl.Float64,  # likewise
        "lag_ms": pl.Float64,  # null for a lost or unreached request
        "outcome": pl.String,
        "status": pl.Int32,
        "bytes": pl.Int64,
        "reason": pl.String,  # what a complete answer lacked; null where no worker said it
        "session": pl.String,  # of a step: the session's name, null for an operation by itself
        "session_number": pl.Int64,  # and its first step's index
        "session_steps": pl.Int32,  # and how many steps it has, of which the block's end may cut
    }
)

ARBITERS = pl.Schema(
    {
        "time_s": pl.Float64,
        "tier": pl.String,
        "protocol": pl.String,
        "policy": pl.String,
        "replicas": pl.Int32,
        "server": pl.String,
        "alive": pl.Boolean,
        "requests": pl.Int64,
        "wins": pl.Int64,
        "errors": pl.Int64,
        "in_flight": pl.Int64,
        "tokens_free": pl.Int64,
        "last_latency_us": pl.Int64,
        "latency_us_sum": pl.Int64,
        "latency_count": pl.Int64,
        "received": pl.Int64,
        "answered": pl.Int64,
        "reads": pl.Int64,  # as the protocol tells; what it does not tell is in neither
        "reads_of_one": pl.Int64,  # of these, for one certain server
        "writes": pl.Int64,
        "replicas_sent": pl.Int64,
        "replicas_wasted": pl.Int64,
        "wasted_us": pl.Int64,
        "tokens_total": pl.Int64,
        "tokens_in_use": pl.Int64,
        "client_accepted": pl.Int64,
        "token_wait_us_total": pl.Int64,
        "busy_us": pl.Int64,
        "token_holds": pl.Int64,
        "token_hold_us_total": pl.Int64,
        "processing_us_sum": pl.Int64,
        "processing_count": pl.Int64,
        "server_busy_us": pl.Int64,
        # Reads whose replicas' replies were held against each other; a server's: how often it was
        # contradicted by more than half of the votes.
        "replies_equal": pl.Int64,
        "replies_different": pl.Int64,
        "replies_not_compared": pl.Int64,
        "replies_refused": pl.Int64,
        "replies_in_minority": pl.Int64,
    }
)

_TIER_STATS = (
    "tier", "protocol", "policy", "replicas", "replicas_sent", "replicas_wasted", "wasted_us",
    "token_wait_us_total", "busy_us", "token_holds", "token_hold_us_total",
)  # fmt: skip
_REQUEST_STATS = ("received", "answered", "reads", "reads_of_one", "writes")
VERDICTS = ("equal", "different", "not_compared", "refused")  # of an arbiter on replies

_HOST_FIELDS = (
    "cpu_percent",
    "cpu_cores",
    "memory_mb",
    "net_rx_mbps",
    "net_tx_mbps",
    "disk_read_mbps",
    "disk_write_mbps",
    "throttled_percent",
)

HOSTS = pl.Schema(
    {
        "time_s": pl.Float64,
        "machine": pl.String,
        "tier": pl.String,
        "role": pl.String,
        **dict.fromkeys(_HOST_FIELDS, pl.Float64),
        "faults_active": pl.Int64,
    }
)

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file completely or not at all; the old one stays until the new one is on disk."""
    new = path.with_name(f".{path.name}.new")
    with space_for(path):
        try:
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file completely or not at all. NaN is a defect, and refused."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def point_latest(run: Path) -> None:
    """Point results/EXPERIMENT/latest to RUN, in one step.

    A run that was cut short does not replace one that reached its end.
    """
    link, new = run.parent / "latest", run.parent / ".latest.new"
    if link.exists() and was_cut_short(run) and not was_cut_short(link):
        return
    new.unlink(missing_ok=True)
    new.symlink_to(run.name, target_is_directory=True)
    new.replace(link)


def was_cut_short(run: Path) -> bool:
    """Return True for a run ended early: by its guard, `halt`, an interrupt or a failure."""
    return bool(manifest_if_any(run).get("cut_short"))


def write_table(path: Path, table: pl.DataFrame, schema: pl.Schema) -> None:
    """Write a Parquet file with exactly the columns of `schema`, in its order and types."""
    ordered = table.select(schema.names()).cast(schema)
    buffer = io.BytesIO()
    ordered.write_parquet(buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())


def arbiter_rows(time_s: float, stats: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return one poll of an arbiter's `/v1/stats` as rows of arbiters.parquet, one per server."""
    compared = stats.get("compare") or {}  # MySQL's arbiters have none
    tier = {
        "time_s": time_s,
        **{name: stats[name] for name in _TIER_STATS},
        **{name: stats["requests"][name] for name in _REQUEST_STATS},
        "tokens_total": stats["tokens"]["total"],
        "tokens_in_use": stats["tokens"]["in_use"],
        "client_accepted": stats["connections"]["client_accepted"],
        **{f"replies_{name}": compared.get(name) for name in VERDICTS},
    }
    names = {"server": "name", "server_busy_us": "busy_us"}  # those the API calls otherwise
    columns = [name for name in ARBITERS.names() if name not in tier]
    return [
        {
            **tier,
            **{column: server.get(names.get(column, column)) for column in columns},
            "replies_in_minority": (server.get("compare") or {}).get("minority"),
        }
        for server in stats["servers"]
    ]


class EventLog:
    """events.jsonl: append one event, synced to disk before the call returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with space_for(path):
            self._file = path.open("ab", buffering=0)

    def append(self, event: Mapping[str, Any]) -> None:
        """Write one event as one line. Raises DiskFull; the lines before stay whole."""
        line = json.dumps(event, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        size = os.fstat(self._file.fileno()).st_size
        with space_for(self.path):
            written = self._file.write(line)
            if written != len(line):
                os.ftruncate(self._file.fileno(), size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def histograms(requests: pl.DataFrame, limit_ms: float) -> dict[str, object]:
    """Return histograms.json: the counted latencies of the measurement, per arm and block.

    Parameters: limit_ms, the load's time-out (`core.statistics.percentiles`).
    HdrHistogram, 1 us to 2 minutes, 3 digits, in its own base64 encoding. Merge these, never
    percentiles.
    """
    after = measured(requests).sort("arm", "repeat")
    rows = after.with_columns(counted(limit_ms).alias("latency_ms"))
    arms: dict[str, dict[str, str]] = {}
    for (arm, repeat), block in rows.group_by("arm", "repeat", maintain_order=True):
        encoded = encode_histogram(block["latency_ms"])
        arms.setdefault(str(arm), {})[str(repeat)] = encoded
    return {"schema": 1, "unit": "us", "digits": 3, "arms": arms}


def encode_histogram(latencies_ms: Iterable[float]) -> str:
    """Return latencies as a base64 HdrHistogram of microseconds."""
    histogram = HdrHistogram(1, 120_000_000, 3)
    for latency_us, count in Counter(max(1, round(ms * 1e3)) for ms in latencies_ms).items():
        histogram.record_value(latency_us, count)
    return bytes(histogram.encode()).decode("ascii")


@contextmanager
def space_for(path: Path) -> Iterator[None]:
    """Turn a full disk while `path` is written into DiskFull, with the files that are kept."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        folder = path.parent
        files = sorted(item.name for item in folder.iterdir() if not item.name.startswith("."))
        raise DiskFull(
            str(path),
            expected="room to write it",
            got=str(error.strerror),
            hint=f"Make room on that disk. Kept in {folder}: {', '.join(files) or 'nothing yet'}.",
        ) from error
