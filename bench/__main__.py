"""Runs every comparison and saves the result: `python -m bench`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    availability,
    choice,
    collisions,
    cooperative,
    http,
    keyvalue,
    load,
    mysql,
    planner,
    provision,
    schedule,
    simulator,
    stalls,
)
from core.json_object import JsonObject, format_json
from experiments.record.manifest import host, versions

FOLDER = Path(__file__).parent


def main() -> None:
    """Run the comparisons, save each one when it is done, and print one line for each ratio."""
    date = datetime.now(UTC)
    runs = FOLDER / "runs"
    runs.mkdir(exist_ok=True)
    file = runs / f"{date:%Y%m%dT%H%M%SZ}.json"
    result: JsonObject = {
        "date": date.isoformat(timespec="seconds"),
        "command": "make bench",
        "host": host(),
        "versions": versions(),
    }
    with tempfile.TemporaryDirectory(prefix="sparecraft-bench-") as work:
        Path(work).chmod(0o755)
        for title, measure in _parts(Path(work)):
            sys.stderr.write(f"bench: {title}\n")
            result |= measure()
            file.write_text(f"{format_json(result)}\n")
    for line in _lines(result):
        sys.stdout.write(line + "\n")


def _parts(work: Path) -> list[tuple[str, Callable[[], JsonObject]]]:
    def measure_choice() -> JsonObject:
        result = choice.measure()
        return {"select": result, "select_ns": result["policies"]["tad"]["1"]["ns"]}

    return [
        ("HTTP", lambda: {"http": http.measure(work)}),
        ("load worker", lambda: {"load": load.measure(work)}),
        ("a server that stops", lambda: {"stalls": stalls.measure(work)}),
        ("PRESS", lambda: {"cooperative": cooperative.measure(work)}),
        ("one choice", measure_choice),
        ("MySQL", lambda: {"mysql": mysql.measure(work)}),
        ("collisions", lambda: {"collisions": collisions.measure()}),
        ("Redis, memcached", lambda: keyvalue.measure_all(work)),
        ("availability", lambda: {"availability": availability.measure()}),
        ("planner", lambda: {"planner": planner.measure()}),
        ("schedule", lambda: {"schedule": schedule.measure()}),
        ("simulator", lambda: {"sim": simulator.measure()}),
        ("provisioning", lambda: {"provision": provision.measure()}),
    ]


def _lines(result: JsonObject) -> list[str]:
    web, selection = result["http"], result["select"]
    lines = [_http_line(count, web[str(count)]) for count in http.CONNECTIONS]
    lines += [_post_line(count, web["post"][str(count)]) for count in http.CONNECTIONS]
    lines += [_added_line(key, web["added_us"]) for key in ("p50", "p99")]
    many = web["many"]
    lines.append(
        f"http, {many['connections']} connections: {many['rss_kib_idle'] / 1024:.0f} MiB idle, "
        f"{many['rss_kib_peak'] / 1024:.0f} MiB at the most, {many['answered']} answered"
    )
    lines += [_load_line(result["load"]), *_stall_lines(result["stalls"])]
    lines += _cooperative_lines(result["cooperative"])
    lines.append(
        f"one choice of {selection['servers']} servers: "
        + ", ".join(
            f"{name} {row['1']['ns']:.0f} ns" for name, row in selection["policies"].items()
        )
    )
    lines += [_mysql_line(count, row) for count, row in result["mysql"]["connections"].items()]
    lines += [_collision_line(row) for row in result["collisions"]]
    lines += [_keyvalue_line(name, result[name]) for name in ("redis", "memcached")]
    lines += [_solver_line(name, row) for name, row in result["availability"]["models"].items()]
    plan, fleet = result["planner"], result["provision"]
    sim = result["sim"]
    lines.append(
        f"simulator: {sim['events_per_s'] / 1e6:.2f} million events/s on 2 x "
        f"{sim['servers_a_tier']} servers; Ciw 1/{sim['ratio_ciw']:.0f}, SimPy "
        f"1/{sim['ratio_simpy']:.0f} of ours on one model"
    )
    lines.append(f"plan: {plan['seconds']:.1f} s ({_format_range(plan)}), {plan['problem']}")
    lines += [_schedule_line(hours, result["schedule"]) for hours in ("free", "tied")]
    lines.append(
        f"provision: {fleet['machines']} machines in {fleet['apply_s']:.1f} s, plain docker run "
        f"{fleet['docker_run_s']:.1f} s, ratio {fleet['ratio']:.2f}"
    )
    return lines


def _http_line(count: int, row: JsonObject) -> str:
    return (
        f"http, {count:>3} connections: arbiter {row['arbiter_rps']:.0f}/s, HAProxy "
        f"{row['haproxy_rps']:.0f}/s, ratio {_format_ratio(row, 'ratio')}, per "
        f"second of the proxy's CPU {row['ratio_cpu']:.2f}; r = 2: "
        f"{_format_ratio(row, 'ratio_r2')}, {row['ratio_cpu_r2']:.2f}; {_comparison_text(row)}"
    )


def _post_line(count: int, row: JsonObject) -> str:
    return (
        f"http, {count:>3} connections, POST: arbiter {row['arbiter_rps']:.0f}/s, HAProxy with "
        f"http-reuse safe {row['haproxy_rps']:.0f}/s, ratio {_format_ratio(row, 'ratio')}, per "
        f"second of the proxy's CPU {_format_ratio(row, 'ratio_cpu')}"
    )


def _schedule_line(hours: str, results: JsonObject) -> str:
    rows = results[hours]
    seconds, gaps = [row["seconds"] for row in rows], [row["gap"] for row in rows]
    worst = "none found" if None in gaps else f"{max(gaps):.2%}"
    return (
        f"schedule, hours {hours}: {min(seconds):.1f} to {max(seconds):.1f} s, gap at most "
        f"{worst}, {results['problem']}"
    )


def _added_line(key: str, row: JsonObject) -> str:
    sides = [
        f"{name} {row[key][side]:.0f} us ({row[key][f'{side}_range'][0]:.0f} to "
        f"{row[key][f'{side}_range'][1]:.0f})"
        for name, side in (("arbiter", "arbiter"), ("HAProxy", "haproxy"))
    ]
    return f"http at {row['rate_per_s']:.0f}/s, added to {key}: {', '.join(sides)}"


def _load_line(row: JsonObject) -> str:
    low, high = row["ratio_wrk_range"]
    return (
        f"load worker, in time: {row['ours_per_s']:.0f}/s, {row['ours_per_cpu_s']:.0f} per second "
        f"of its CPU, lag p99 {row['half_lag_ms_p99'] * 1e3:.0f} us at half of it; "
        f"Locust's closed loop {row['locust_per_s']:.0f}/s, ratio "
        f"{_format_ratio(row, 'ratio_locust')}, per second of CPU {row['ratio_locust_cpu']:.2f}; "
        f"wrk {row['wrk_per_s']:.0f}/s, {row['ratio_wrk']:.3f} ({low:.3f} to {high:.3f})"
    )


def _stall_lines(results: JsonObject) -> list[str]:
    head = f"a server that stops for {results['stopped_s']:g} s in {results['every_s']:g}, in ms: "
    lines = []
    for name in ("ours", "wrk2", "locust", "wrk"):
        row = results[name]
        if row is None:
            lines.append(f"{head}{name} is not there (bench/README.md)")
            continue
        quantiles = ", ".join(
            f"{key} {value:.0f} for {row['truth_ms'][key]:.0f}" for key, value in row["ms"].items()
        )
        lines.append(f"{head}{name} says {quantiles}; off by {row['error_max']:.0%} at the most")
    return lines


def _cooperative_lines(results: JsonObject) -> list[str]:
    lines = []
    for count, row in results["one"].items():
        lines.append(
            f"press, {count:>3} connections: {row['press_rps']:.0f}/s, nginx "
            f"{row['nginx_rps']:.0f}/s, ratio {_format_ratio(row, 'ratio')}, per "
            f"second of CPU {row['ratio_cpu']:.2f}"
        )
    four = results["four"]
    sharing, apart = four["sharing_pages"], four["apart_pages"]
    lines.append(
        f"press, four nodes: {four['sharing_rps']:.0f}/s, {sharing['local']:.1%} from own memory, "
        f"{sharing['peer']:.1%} from a peer's, {sharing['disk']:.1%} read; apart "
        f"{four['apart_rps']:.0f}/s, {apart['local']:.1%} and {apart['disk']:.1%}; ratio "
        f"{_format_ratio(four, 'ratio')}, of reads {four['ratio_reads']:.2f}"
    )
    return lines


def _mysql_line(count: str, row: JsonObject) -> str:
    return (
        f"mysql, {count:>3} connections: arbiter {row['arbiter_per_s']:.0f}/s, HAProxy "
        f"{row['haproxy_per_s']:.0f}/s; per second of the proxy's CPU: ratio "
        f"{_format_ratio(row, 'ratio')}, in time {row['ratio_wall']:.2f}; "
        f"r = 2: {row['ratio_r2']:.2f}"
    )


def _collision_line(row: JsonObject) -> str:
    low, high = row["p_c_interval"]
    avoids = "avoided" if row["avoids"] else "not avoided"
    return (
        f"collisions {avoids}, ({row['r1']}, {row['r2']}) at M2 = {row['m2']}, {row['policy']}: "
        f"P_c {row['p_c']:.2f} ({low:.2f} to {high:.2f}), Eq. 1 {row['eq_1']:.2f}"
    )


def _keyvalue_line(name: str, results: JsonObject) -> str:
    rows = [(pipeline, results[pipeline]) for pipeline in results["ratio"]]
    return f"{name}: requests/s over twemproxy's " + "; ".join(
        f"pipelined {pipeline}: {_format_ratio(row, 'ratio')}, r = 2: {row['ratio_r2']:.2f}, per "
        f"processor second {row['ratio_cpu']:.2f}; {_comparison_text(row)}"
        for pipeline, row in rows
    )


def _comparison_text(row: JsonObject) -> str:
    ratios = [
        f"{mode} {_format_ratio(row, f'ratio_{mode}')}, per second of its CPU "
        f"{row[f'ratio_cpu_{mode}']:.2f}"
        for mode in keyvalue.COMPARING
    ]
    return f"replies compared at r = 2, over not: {', '.join(ratios)}"


def _format_ratio(row: JsonObject, key: str) -> str:
    low, high = row[f"{key}_range"]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


def _solver_line(name: str, row: JsonObject) -> str:
    line = f"availability, {name}: {row['ours']['seconds'] * 1e3:.1f} ms"
    if "ratio" in row:
        line += f", Storm {row['ratio']:.0f} times that, {row['apart']:.0e} apart"
    elif "ratio_at_least" in row:
        line += f", Storm not done after {row['ratio_at_least']:.0f} times that"
    if "ratio_dense" in row:
        line += f", dense expm {row['ratio_dense']:.1f} times"
    return line


def _format_range(row: JsonObject) -> str:
    low, high = row["range"]
    return f"{low:.1f} to {high:.1f}"


if __name__ == "__main__":
    main()
