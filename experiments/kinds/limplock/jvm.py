"""What a server's JVM tells of itself, by the exporter that `infra/roles/java/common.sh` starts."""

from __future__ import annotations

import re

import httpx

_PORT = 9404
_LIMIT_S = 2.0
_MEGABYTE = 2.0**20
_LINE = re.compile(r"^([a-z_]+)(?:\{([^}]*)\})? ([0-9.eE+-]+)$", re.MULTILINE)


def look_at_jvm(host: str) -> dict[str, float]:
    """Heap in use and in all [MB], seconds of collections so far, threads; empty where it does not
    answer.

    Parameters: host, its address on the control network.
    """
    try:
        text = httpx.get(f"http://{host}:{_PORT}/metrics", timeout=_LIMIT_S, trust_env=False).text
    except httpx.HTTPError:
        return {}
    return read_jvm(text)


def read_jvm(text: str) -> dict[str, float]:
    """The same of the exporter's text."""
    found: dict[str, float] = {}
    for name, labels, value in _LINE.findall(text):
        if name == "jvm_memory_bytes_used" and 'area="heap"' in labels:
            found["heap_used_mb"] = float(value) / _MEGABYTE
        elif name == "jvm_memory_bytes_max" and 'area="heap"' in labels:
            found["heap_max_mb"] = float(value) / _MEGABYTE
        elif name == "jvm_gc_collection_seconds_sum":
            found["gc_s"] = found.get("gc_s", 0.0) + float(value)
        elif name == "jvm_threads_current":
            found["threads"] = float(value)
    return found
