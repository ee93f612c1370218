"""PRESS beside nginx, one node and one thread each; and four nodes of PRESS beside four that do not
share their memories. The page set is the role's: 18,000 pages of 26 KB, requested by Zipf's law.

One node has all pages in its memory, and nginx has them in the kernel's page cache with open
descriptors. Each of four nodes holds 128 MiB, more than a quarter of the set and less than half.
Pages in no memory are read from files, here from the page cache. So the cost of a disk is not in
the requests per second; the reads per request are given beside them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType

import httpx
import numpy as np

from bench.http import CONNECTIONS, WRK_KEYS, wrk_figures
from bench.process import ROOT, answer_check, connection_check, cpu_s, nginx, run_program
from bench.turns import Turns, compare
from core.json_object import JsonObject
from experiments.design.workloads import PAGE_ZIPF

ROLE = ROOT / "infra" / "roles" / "press"
PRESS = ROOT / "build" / "bin" / "press"
NODES = 4
NGINX, ALONE, SHARING, APART = 19301, 19310, 19320, 19330
ALL_MIB, NODE_MIB = 640, 128
TURNS, TURN_S, WARM_UP_S = 7, 2, 6
WARM_UPS_MAX = 10  # each of WARM_UP_S
DRAWN = 100_000  # requests that are drawn ahead
_SEED = 20261124
# The fastest settings of nginx for files that do not change.
_QUICK = """
  sendfile on;
  tcp_nopush on;
  open_file_cache max=18500 inactive=1h;
  open_file_cache_valid 1h;
  types { text/html html; }
"""
_LUA = """local requests, ports, threads = {}, {@PORTS@}, 0
position = 0
function setup(thread)
  threads = threads + 1
  thread.addr = wrk.lookup("127.0.0.1", ports[threads])[1]
  thread:set("position", threads * 7919)
end
function init()
  for line in io.lines("@DRAWN@") do requests[#requests + 1] = wrk.format("GET", line) end
end
function request()
  position = position % #requests + 1
  return requests[position]
end
"""


def measure(work: Path) -> JsonObject:
    """Return requests per second of both comparisons, and the share of pages by source."""
    root = work / "pages"
    root.mkdir()
    count = _write_pages(root)
    drawn = _draw_requests(work, count)
    server = nginx(work, [NGINX], root, answer_check(NGINX, "/000000.html"), _QUICK)
    with ExitStack() as stack:
        targets = {
            "nginx": [(NGINX, stack.enter_context(server))],
            "press": [stack.enter_context(_run_node(work, root, ALONE, [ALONE], ALL_MIB))],
        }
        _fill_memory(work, targets, count)
        single_node = {
            str(number): _compare_with_nginx(work, drawn, targets, number) for number in CONNECTIONS
        }
    with ExitStack() as stack:
        ports = range(SHARING, SHARING + NODES)
        clusters = {
            "sharing": [
                stack.enter_context(_run_node(work, root, port, ports, NODE_MIB)) for port in ports
            ],
            "apart": [
                stack.enter_context(_run_node(work, root, port, [port], NODE_MIB))
                for port in range(APART, APART + NODES)
            ],
        }
        four = _compare_clusters(work, drawn, clusters)
    return {"pages": count, "zipf": PAGE_ZIPF, "one": single_node, "four": four}


Targets = dict[str, list[tuple[int, int]]]  # ports and process numbers


def _compare_with_nginx(work: Path, drawn: Path, targets: Targets, connections: int) -> JsonObject:
    turns = _measure_turns(work, drawn, targets, connections)
    ratios = {"ratio": ("press", "rps"), "ratio_cpu": ("press", "per_cpu_s")}
    return compare(turns, WRK_KEYS, "nginx", **ratios)


def _compare_clusters(work: Path, drawn: Path, clusters: Targets) -> JsonObject:
    """Compare four warm nodes that share their memories with four that do not."""
    for nodes in clusters.values():
        _run_wrk(work, drawn, [port for port, _ in nodes], 32, WARM_UP_S)
    before = {name: _count_sources(nodes) for name, nodes in clusters.items()}
    turns = _measure_turns(work, drawn, clusters, 32)
    result: JsonObject = compare(turns, WRK_KEYS, "apart", ratio=("sharing", "rps"))
    for name, nodes in clusters.items():
        pages = {key: n - before[name][key] for key, n in _count_sources(nodes).items()}
        total = sum(pages.values())
        result[f"{name}_pages"] = {key: number / total for key, number in pages.items()}
    reads = (result[f"{name}_pages"]["disk"] for name in ("sharing", "apart"))
    return {**result, "ratio_reads": next(reads) / next(reads)}


def _measure_turns(work: Path, drawn: Path, targets: Targets, connections: int) -> Turns:
    """Measure in turns; `per_cpu_s` is requests per second of CPU time of all nodes."""
    runs: Turns = {name: [] for name in targets}
    for _ in range(TURNS):
        for name, nodes in targets.items():
            before_s = sum(cpu_s(pid) for _, pid in nodes)
            run = _run_wrk(work, drawn, [port for port, _ in nodes], connections, TURN_S)
            if run["errors"]:
                raise ValueError(f"{name}: expected no errors, got {run['errors']:.0f}")
            took_s = sum(cpu_s(pid) for _, pid in nodes) - before_s
            run["per_cpu_s"] = run.pop("requests") / took_s
            runs[name].append(run)
    return runs


def _run_wrk(
    work: Path, drawn: Path, ports: Sequence[int], connections: int, seconds: int
) -> dict[str, float]:
    """Run wrk with a thread for each port, on the drawn pages."""
    script = work / f"ask-{ports[0]}.lua"
    text = _LUA.replace("@DRAWN@", str(drawn))
    script.write_text(text.replace("@PORTS@", ", ".join(str(port) for port in ports)))
    count = max(connections, len(ports))
    command = ["wrk", f"-t{len(ports)}", f"-c{count}", f"-d{seconds}s", "--latency"]
    process = subprocess.run(
        [*command, "-s", str(script), f"http://127.0.0.1:{ports[0]}/"],
        capture_output=True, text=True, timeout=seconds + 60, check=True,
    )  # fmt: skip
    return wrk_figures(process.stdout)


def _count_sources(nodes: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Return the pages served so far, by source."""
    pages: dict[str, int] = {}
    for port, _ in nodes:
        text = httpx.get(f"http://127.0.0.1:{port + 200}/metrics", trust_env=False).text
        for source, number in re.findall(r'press_pages_total\{source="(\w+)"\} (\d+)', text):
            pages[source] = pages.get(source, 0) + int(number)
    return pages


def _fill_memory(work: Path, targets: Targets, count: int) -> None:
    """Request each page, and check that the node has read each of them once."""
    all_pages = work / "every"
    all_pages.write_text("".join(f"/{index:06d}.html\n" for index in range(count)))
    for _ in range(WARM_UPS_MAX):
        for nodes in targets.values():
            _run_wrk(work, all_pages, [port for port, _ in nodes], 32, WARM_UP_S)
        read = _count_sources(targets["press"])["disk"]
        if read == count:
            return
    raise ValueError(f"expected all {count} pages read once, got {read} reads")


@contextmanager
def _run_node(
    work: Path, root: Path, port: int, peers: Sequence[int], mib: int
) -> Iterator[tuple[int, int]]:
    """Run a node with clients at `port`, nodes at `port` + 100, and operators at `port` + 200."""
    command = [
        str(PRESS), "--name", f"n{port}",
        "--peers", ",".join(f"n{peer}=127.0.0.1:{peer + 100}" for peer in peers),
        "--root", str(root), "--mode", "ha", "--cache-mib", str(mib),
        "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{port + 200}",
    ]  # fmt: skip
    with run_program(command, work / f"press-{port}.log", connection_check(port)) as pid:
        yield port, pid


def _import_role_module() -> ModuleType:
    """Import the role's pages.py."""
    spec = util.spec_from_file_location("pages", ROLE / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write_pages(root: Path) -> int:
    """Write the role's pages with random letters, because their text does not matter here."""
    pages = _import_role_module()
    rng = np.random.default_rng(_SEED)
    text = bytes(rng.integers(97, 123, size=pages.PAGE_BYTES * 4, dtype=np.uint8)).decode()
    for index in range(pages.PAGES):
        (root / f"{index:06d}.html").write_bytes(pages.page(index, text))
    return int(pages.PAGES)


def _draw_requests(work: Path, count: int) -> Path:
    """Write the requested pages, drawn by Zipf's law over the pages in their order."""
    weights = np.arange(1, count + 1) ** -PAGE_ZIPF
    numbers = np.random.default_rng(_SEED).choice(count, DRAWN, p=weights / weights.sum())
    file = work / "drawn"
    file.write_text("".join(f"/{number:06d}.html\n" for number in numbers))
    return file
