"""Metrics of a server's JVM, by the exporter that `infra/roles/java/common.sh` starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import httpx

from experiments.kinds.limplock.clients import metrics_client

_PORT = 9404
_MEMORY, _COLLECTORS = "java.lang:type=Memory", "java.lang:type=GarbageCollector,*"
_MEGABYTE = 2.0**20
_LINE = re.compile(r"^([a-zA-Z_]+)(?:\{([^}]*)\})? ([0-9.eE+-]+)$", re.MULTILINE)
_LABEL = re.compile(r'([a-zA-Z_]+)="([^"]*)"')


def exported(host: str) -> str:
    """Return the exporter's text; empty if it does not answer.

    Parameters: host, its address on the control network.
    """
    try:
        return metrics_client.page(f"http://{host}:{_PORT}/metrics")
    except httpx.HTTPError:
        return ""


def samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name, labels and value of each number in the exporter's text."""
    for name, labels, value in _LINE.findall(text):
        yield name, dict(_LABEL.findall(labels)), float(value)


def look_at_jvm(host: str) -> dict[str, float]:
    """Used and maximal heap [MB], seconds of collections so far, number of threads; empty if the
    exporter does not answer.

    Parameters: host, its address on the control network.
    """
    return read_jvm(exported(host))


def look_at_jvm_by_page(host: str, port: int) -> dict[str, float]:
    """Used and maximal heap [MB] and seconds of collections so far, from a page of beans; empty if
    the server does not answer.

    Parameters: host, mostly its address on the control network.
    """
    memory = metrics_client.bean(host, port, _MEMORY).get("HeapMemoryUsage")
    if memory is None:
        return {}
    spent_ms = sum(
        collector["CollectionTime"] for collector in metrics_client.beans(host, port, _COLLECTORS)
    )
    return {
        "heap_used_mb": memory["used"] / _MEGABYTE,
        "heap_max_mb": memory["max"] / _MEGABYTE,
        "gc_s": spent_ms / 1000,
    }


def read_jvm(text: str) -> dict[str, float]:
    """Return the metrics of `look_at_jvm` from the exporter's text."""
    metrics: dict[str, float] = {}
    for name, labels, value in samples(text):
        if name == "jvm_memory_bytes_used" and labels.get("area") == "heap":
            metrics["heap_used_mb"] = value / _MEGABYTE
        elif name == "jvm_memory_bytes_max" and labels.get("area") == "heap":
            metrics["heap_max_mb"] = value / _MEGABYTE
        elif name == "jvm_gc_collection_seconds_sum":
            metrics["gc_s"] = metrics.get("gc_s", 0.0) + value
        elif name == "jvm_threads_current":
            metrics["threads"] = value
    return metrics
