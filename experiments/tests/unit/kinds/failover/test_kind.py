"""Fail-overs: which calls they hit, how long, what follows on a strike, and what they buy."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy import stats

from core.errors import MeasurementFailed
from core.runfiles.result import FILE
from core.units import YEAR_S
from experiments.design import load_design
from experiments.design.schedule import Block
from experiments.kinds import find, section_of
from experiments.kinds.failover import measure
from experiments.kinds.failover.analysis import (
    analyse,
    audit_total,
    covered_share,
    failovers,
    server_side,
    share_most,
)
from experiments.kinds.failover.availability_gain import gain_basis, gain_of
from experiments.kinds.failover.client import INVOCATIONS, PARTS, Client, plan_of, read_records
from experiments.kinds.failover.measure import (
    HISTORY_FILE,
    INVOCATIONS_FILE,
    STRIKES_FILE,
    Blocks,
    StrikeRecord,
    cells,
    delays_s,
)
from experiments.kinds.failover.page import headline, print_result, write_page
from experiments.kinds.failover.section import FailoverSection
from experiments.kinds.failover.tables import bought_table, calls_table
from experiments.record.records import write_json, write_table
from experiments.record.result import result_of
from experiments.tests.manifest_fixture import made_manifest
from experiments.tests.spec_fixture import refused

EVERY_S = 4.0
TWO_OF_A_TIER = 'kind = "process.hang", tier = "names", for_s = 1.0, servers = 2'


def asked(name: str = "failover") -> FailoverSection:
    section = section_of(find("failover"), load_design(name))
    assert isinstance(section, FailoverSection)
    return section


def call(
    block: int, client: int, start_s: float, latency_ms: float, sent: int = 1, outcome: str = "ok"
) -> dict[str, Any]:
    """An invocation; if it was sent again, each part of the fail-over has an equal share of it."""
    part_ms = latency_ms / len(PARTS) if sent != 1 else 0.0
    arm = "nothing" if block == 0 else "open"
    return {"arm": arm, "fault": "process.crash", "clients": 2, "block": block, "client": client,
            "id": client, "method": "GetLots", "number": round(1000 * start_s), "start_s": start_s,
            "latency_ms": latency_ms, "outcome": outcome, "sent": sent, "needless": False,
            "server": "lots-1", **{f"{part}_ms": part_ms for part in PARTS}}  # fmt: skip


def struck(block: int, number: int) -> StrikeRecord:
    at_s = 100.0 * block + EVERY_S * number
    return {"block": block, "server": f"lots-{number % 2 + 1}", "asked_s": at_s,
            "since_s": at_s + 0.03, "ended_s": at_s + 1.5}  # fmt: skip


STRUCK = [struck(block, number) for block in (0, 1) for number in range(3)]
CALLS = [
    *(call(block, client, 100.0 * block + 0.1 * k, 1.5)
      for block in (0, 1) for client in (0, 1) for k in range(100)),
    # before the first strike
    call(0, 0, -0.5, 900.0, sent=2),
    # the first strike: client 1 is the slower one, and has a second fail-over that is shorter
    call(0, 0, 0.02, 1200.0, sent=2), call(0, 1, 0.02, 1400.0, sent=3),
    call(0, 1, 1.5, 50.0, sent=2),
    # the second strike: one is lost, and ends in the time of the third
    call(0, 0, 4.02, 5000.0, sent=2, outcome="gave_up"),
    call(1, 0, 100.02, 7.0, sent=2), call(1, 0, 104.02, 9.0, sent=2),
    call(1, 1, 108.02, 5.0, sent=2),
]  # fmt: skip


def invocations() -> pl.DataFrame:
    return pl.DataFrame(CALLS, INVOCATIONS)


def test_each_strike_has_the_longest_fail_over_of_each_client() -> None:
    table = failovers(invocations(), STRUCK)
    latencies_ms = {(row["strike"], row["client"]): row["latency_ms"] for row in table.to_dicts()}
    assert latencies_ms == {
        (0, 0): 1200.0, (0, 1): 1400.0, (1, 0): 5000.0, (3, 0): 7.0, (4, 0): 9.0, (5, 1): 5.0,
    }  # fmt: skip


def test_a_second_request_that_was_not_needed_is_no_fail_over() -> None:
    records = [{**call(0, 0, 0.02, 30.0, sent=2), "needless": True},
               call(0, 0, 1.02, 20.0, sent=2)]  # fmt: skip
    (failover,) = failovers(pl.DataFrame(records, INVOCATIONS), STRUCK).to_dicts()
    assert failover["latency_ms"] == 20.0


def test_the_longest_of_twenty_bounds_86_per_cent_with_95_per_cent_confidence() -> None:
    share = covered_share(20, 0.95)
    assert share is not None
    assert share == pytest.approx(0.8609, abs=1e-4)
    assert 1 - share**20 == pytest.approx(0.95)
    assert covered_share(0, 0.95) is None


@pytest.mark.parametrize(("beyond", "count"), [(0, 20), (1, 20), (7, 20)])
def test_the_limit_of_a_share_is_where_so_few_would_be_seen_seldom(beyond: int, count: int) -> None:
    share = share_most(beyond, count, 0.95)
    assert share is not None
    assert stats.binom.cdf(beyond, count, share) == pytest.approx(0.05)
    assert (share_most(3, 3, 0.95), share_most(0, 0, 0.95)) == (1.0, None)


def test_the_server_side_is_told_by_what_follows_on_a_strike_at_that_server() -> None:
    history = [
        {"at": 1.0, "what": "detected", "server": "lots-1", "by": "m"},
        {"at": 1.0, "what": "detected", "server": "lots-2", "by": "m"},
        {"at": 9.0, "what": "detected", "server": "lots-1", "by": "m"},
        {"at": 1.2, "what": "ready", "server": "lots-1", "by": "lots-1"},
    ]
    delays = server_side(STRUCK[:3], history)  # lots-1 at 0, lots-2 at 4, lots-1 at 8
    assert delays == {"detected": 1.0, "removed": None, "ordered": None, "ready": 1.2}


def test_a_torn_last_record_is_left_out_and_times_are_the_runs(tmp_path: Path) -> None:
    record = {key: value for key, value in call(0, 0, 105.0, 2.0).items()
              if key not in ("arm", "fault", "clients", "block")}  # fmt: skip
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(record) + '\n{"client": 1, "num')
    block = {"arm": "open", "fault": "process.crash", "clients": 1, "block": 3}
    (row,) = read_records(path, 100.0, **block).to_dicts()
    assert (row["start_s"], row["arm"], row["block"]) == (5.0, "open", 3)


def test_a_client_is_heard_and_ended(tmp_path: Path) -> None:
    program = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
        "print('1 b', flush=True); print('0 a', flush=True); signal.pause()"
    )
    client = Client([sys.executable, "-c", program], tmp_path / "log")
    try:
        client.await_first_reply()
        assert client.in_use == "a"
        client.finish()
    finally:
        client.close()


def test_a_client_is_closed_though_a_child_of_it_holds_its_output(tmp_path: Path) -> None:
    program = "import subprocess; subprocess.Popen(['sleep', '3600']); print('0 a', flush=True)"
    client = Client([sys.executable, "-c", program], tmp_path / "log")
    try:
        client.await_first_reply()
    finally:
        client.close()
    assert client.in_use == "a"


def hear_and_end(client: Client) -> None:
    try:
        client.await_first_reply()
    finally:
        client.close()
    client.finish()


@pytest.mark.parametrize("words", ["print('0 a')", "raise SystemExit('no naming service')"])
def test_a_client_that_ends_by_itself_fails_the_measurement(tmp_path: Path, words: str) -> None:
    client = Client([sys.executable, "-c", words], tmp_path / "log")
    with pytest.raises(MeasurementFailed):
        hear_and_end(client)


@pytest.mark.parametrize("name", ["failover", "failover-faults", "failover-paper"])
def test_the_designs_that_come_with_it_are_sound(name: str) -> None:
    assert set(asked(name).strategies) == set(load_design(name).experiment.arms)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('tier = "lots"', 'tier = "names"', "tier"),
        ('tier = "lots"', 'tier = "nobody"', "tier"),
        ("wait-4 = {", "wait-5 = {", "strategies"),
        ('wait-0 = { strategy = "primary"', 'wait-0 = { strategy = "arbiter"', "strategies"),
        *(("strikes = 10", new, key) for new, key in (
            ('faults = [{ kind = "process.crash", servers = 3 }]', "faults"),
            (f"faults = [{{ {TWO_OF_A_TIER} }}]", "faults"),
            ('calls = "mixed"', "calls"),
            ('rates = { "process.hang" = { per_year = 1.0, source = "mine" } }', "rates"),
            ("availability = 1.0", "availability"),
            ('faults = [{ kind = "process.hang", tier = "names" }]', "faults"),
            ('faults = [{ kind = "net.limp", parameters = {} }]', "faults"),
            ("clients = [0]", "clients"),
            ("strikes = 0", "strikes"),
        )),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_key(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    assert f"failover.{key}" in str(refused(tmp_path, "failover-paper", old, new))


def test_the_plan_says_what_the_service_and_the_arm_say() -> None:
    section = asked()
    plan = plan_of({"naming": "here:1"}, 10, section.strategies["wait-1"], section)
    keys = ("naming", "clients", "calls", "strategy", "wait_s", "gap_s")
    assert {key: plan[key] for key in keys} == {
        "naming": "here:1", "clients": 10, "calls": "reads", "strategy": "primary", "wait_s": 1.0,
        "gap_s": 0.002,
    }  # fmt: skip


ONCE = {"changes": 40, "twice": 0, "missing": 0, "unasked": 0, "astray": 0}


def run_folder(
    tmp_path: Path, struck: Sequence[Mapping[str, Any]], audit: Mapping[str, int] | None = ONCE,
) -> Path:  # fmt: skip
    section = FailoverSection.model_validate(
        {"tier": "lots", "strikes": 3,
         "clients": [2],
         "strategies": {arm: {"strategy": "primary"} for arm in ("nothing", "open")}}
    )  # fmt: skip
    blocks = [{"arm": arm, "fault": "process.crash", "clients": 2, "block": index, "audit": audit}
              for index, arm in enumerate(("nothing", "open"))]  # fmt: skip
    spec = {"failover": section.model_dump(mode="json")}
    write_json(tmp_path / "manifest.json", made_manifest("failover", blocks=blocks, spec=spec))
    write_table(tmp_path / INVOCATIONS_FILE, invocations(), INVOCATIONS)
    write_json(tmp_path / STRIKES_FILE, list(struck))
    write_json(tmp_path / HISTORY_FILE, [])
    return tmp_path


def test_a_row_has_times_parts_bounds_and_what_was_lost(tmp_path: Path) -> None:
    findings = analyse(run_folder(tmp_path, STRUCK))
    nothing_row, open_row = findings.body["rows"]
    assert (nothing_row["strikes"], nothing_row["failovers"], nothing_row["lost"]) == (3, 2, 1)
    assert (nothing_row["max_ms"], nothing_row["beyond"]) == (5000.0, 2)
    assert (open_row["max_ms"], open_row["beyond"], open_row["quantiles_ms"]["50"]) == (9.0, 0, 7.0)
    assert sum(open_row["parts_ms"].values()) == pytest.approx(7.0)
    assert findings.verdicts["measurement"]["ok"]


def test_of_a_hundred_fail_overs_ten_lie_beyond_p90(tmp_path: Path) -> None:
    """A case in which 100 * (1 - 0.9) is a little less than 10."""
    folder = run_folder(tmp_path, [*(struck(0, number) for number in range(100)), *STRUCK[3:]])
    failed_over = [
        call(0, 0, EVERY_S * number + 0.02, 10.0 + number, sent=2) for number in range(100)
    ]
    other_block = [record for record in CALLS if record["block"] == 1]
    write_table(
        folder / INVOCATIONS_FILE,
        pl.DataFrame([*failed_over, *other_block], INVOCATIONS),
        INVOCATIONS,
    )
    nothing_row, open_row = analyse(folder).body["rows"]
    assert (nothing_row["failovers"], nothing_row["quantiles_ms"]["90"]) == (100, 99.0)
    assert nothing_row["insufficient"] == ["99", "99.9"]
    assert open_row["insufficient"] == ["50", "90", "99", "99.9"]


def test_each_repeat_has_every_cell_once_in_an_order_of_its_own() -> None:
    design, section = load_design("failover-faults"), asked("failover-faults")
    experiment = design.experiment.model_copy(
        update={"design": design.experiment.design.model_copy(update={"repeats": 3})}
    )
    all_cells = cells(experiment, section)
    cells_per_repeat = len(section.cases()) * len(experiment.arms)
    orders = [
        [
            (block.arm, fault.name, clients)
            for block, fault, clients in all_cells[start:][:cells_per_repeat]
        ]
        for start in range(0, len(all_cells), cells_per_repeat)
    ]
    assert len(orders) == 3
    assert all(len(set(order)) == cells_per_repeat for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert orders[0] != sorted(orders[0])
    assert [block.repeat for block, _, _ in all_cells] == list(range(3 * cells_per_repeat))
    assert cells(experiment, section) == all_cells


def test_strikes_meet_any_phase_of_the_managers_round() -> None:
    design, section = load_design("failover-paper"), asked("failover-paper")
    delays = [delays_s(block, section) for block, _, _ in cells(design.experiment, section)]
    assert len({tuple(block_delays) for block_delays in delays}) == len(delays)
    sorted_delays = sorted(delay for block_delays in delays for delay in block_delays)
    assert len(sorted_delays) == 100
    assert 0.0 <= sorted_delays[0] < 1.0
    assert section.phase_s - 1.0 < sorted_delays[-1] <= section.phase_s
    without_phase = section.model_copy(update={"phase_s": 0.0})
    block, *_ = cells(design.experiment, section)[0]
    assert delays_s(block, without_phase) == [0.0] * section.strikes


class _Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize("missing", [(), ("lots-1",)])
def test_a_strike_leaves_clients_their_time_after_the_one_before(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    """A server may be registered again as soon as the strike is over: then nothing is awaited."""
    section = asked("failover-paper")
    clock, struck_s = _Clock(), list[tuple[float, float]]()

    def strike(*_: object) -> None:
        began_s = clock.now_s
        clock.sleep(4.9)
        struck_s.append((began_s, clock.now_s))

    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(Blocks, "_missing", lambda _: set(missing))
    monkeypatch.setattr(Blocks, "_await_all", lambda _: clock.sleep(0.2))
    monkeypatch.setattr(Blocks, "_targets", lambda *_: missing)
    monkeypatch.setattr(Blocks, "_strike", strike)
    blocks: Any = object.__new__(Blocks)
    blocks._section = section
    blocks._strike_all(Block(0, 0, "wait-4", 1), section.faults[0], None)
    assert len(struck_s) == section.strikes
    assert struck_s[0][0] >= section.warm_up_s
    gaps_s = [later[0] - earlier[1] for earlier, later in pairwise(struck_s)]
    assert min(gaps_s) >= section.warm_up_s
    longest_wait_s = max(strategy.wait_s for strategy in section.strategies.values())
    assert section.warm_up_s > longest_wait_s


def test_rows_are_in_the_designs_order_and_have_a_median_a_block(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, STRUCK)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["blocks"].reverse()
    write_json(folder / "manifest.json", manifest)
    nothing_row, open_row = analyse(folder).body["rows"]
    assert (nothing_row["arm"], open_row["arm"]) == ("nothing", "open")
    assert (nothing_row["medians_ms"], open_row["medians_ms"]) == ([1400.0], [7.0])
    assert nothing_row["lock_ms_max"] == pytest.approx(5000.0 / len(PARTS))


def test_strikes_of_all_repeats_are_asked_for(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, STRUCK)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["blocks"].append({**manifest["blocks"][0], "block": 2})
    write_json(folder / "manifest.json", manifest)
    assert not analyse(folder).verdicts["measurement"]["ok"]
    incomplete = analyse(run_folder(tmp_path, STRUCK[:5]))
    assert not incomplete.verdicts["measurement"]["ok"]


def test_audits_of_a_cell_add_up_and_one_without_leaves_none() -> None:
    twice_made = {"audit": {**ONCE, "twice": 1}}
    assert audit_total([{"audit": ONCE}, twice_made]) == {**ONCE, "changes": 80, "twice": 1}
    assert audit_total([twice_made, {"audit": None}]) is None
    assert audit_total([{}]) is None


def test_what_was_called_and_what_the_service_kept_are_told(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, STRUCK, {**ONCE, "twice": 3})
    row, _ = analyse(folder).body["rows"]
    assert row["methods"] == {"GetLots": row["invocations"]}
    assert row["audit"] == {**ONCE, "twice": 3}
    calls = calls_table([row])
    assert calls is not None
    moods = dict(zip(calls.head, (cell.mood for cell in calls.rows[0]), strict=True))
    assert (moods["twice"], moods["missing"]) == ("bad", "")
    row, _ = analyse(run_folder(tmp_path, STRUCK, None)).body["rows"]
    assert (row["audit"], calls_table([row])) == (None, None)


def test_a_fault_under_which_nothing_was_called_is_none_whose_calls_kept_the_bound() -> None:
    longest_ms = {"nothing": (5.0, 5000.0, None), "open": (5.0, 5.0, None)}
    rows = [
        {"arm": arm, "fault": fault, "longest_call_ms": ms, "lost": 0, "invocations": 9, "wrong": 0}
        for arm, calls in longest_ms.items()
        for fault, ms in zip(("crash", "hang", "loss"), calls, strict=True)
    ]
    assert "2 with open, 1 with nothing" in headline({"rows": rows, "bound_s": 1.0})


def test_a_headline_tells_of_changes_that_were_not_made_once() -> None:
    row = {"arm": "open", "fault": "crash", "max_ms": 5.0, "wrong": 0, "audit": ONCE}
    plain_sentence = headline({"rows": [row], "bound_s": 1.0})
    for errors in ({"wrong": 2}, {"audit": {**ONCE, "twice": 2}}, {"audit": {**ONCE, "astray": 2}}):
        sentence = headline({"rows": [row, {**row, **errors}], "bound_s": 1.0})
        assert sentence.startswith(plain_sentence)
        assert " 2 " in sentence.removeprefix(plain_sentence)


def test_the_page_shows_each_arm_and_block(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, STRUCK)
    manifest = json.loads((folder / "manifest.json").read_text())
    result = json.loads(json.dumps(result_of("failover", manifest, analyse(folder))))
    write_json(folder / FILE, result)
    page = write_page(folder).read_text()
    for identity in ("summary", "matrix-2", "parts", "calls", "share-0", "parts-0", "course-0",
                     "course-1"):  # fmt: skip
        assert f'id="{identity}' in page
    assert "9.00 ms" in page
    assert page.index('id="matrix-2') < page.index("<details")
    assert page.count("<details open") == page.count("<details")
    console = Console(width=80, record=True)
    print_result(result["failover"] | {"verdicts": {}}, console, folder)
    assert "…" not in console.export_text()


def test_the_page_of_many_faults_opens_with_its_main_table_and_folds_the_rest(
    tmp_path: Path,
) -> None:
    folder = run_folder(tmp_path, STRUCK)
    manifest = json.loads((folder / "manifest.json").read_text())
    findings = analyse(folder)
    rows = findings.body["rows"]
    many_rows = [
        {**row, "fault": f"{row['fault']} {copy_number}"}
        for copy_number in range(12)
        for row in rows
    ]
    findings = replace(findings, body={**findings.body, "rows": many_rows})
    write_json(folder / FILE, result_of("failover", manifest, findings))
    page = write_page(folder).read_text()
    opening, _, folded = page.partition("<details")
    assert 'id="matrix-2' in opening
    assert "<figure" not in opening
    assert folded.count("<summary><h2 id=") == 12
    for identity in ("summary", "parts", "fault-0"):
        details_start = page[: page.index(f'id="{identity}"')].rindex("<details")
        assert not page[details_start:].startswith("<details open")


FAULT = "process.crash"
READY_S = [2.0] * 20


def manifest() -> dict[str, Any]:
    """Of a run of the design, with as much as is read here."""
    fleet = load_design("failover").fleet
    machines = [{"name": name, "tier": tier, "role": spec.role, "standby": False,
                 "usd_per_hour": None, "instance_type": None}
                for tier, spec in fleet.tiers.items() for name in fleet.nodes_of(tier)]  # fmt: skip
    return {"spec": {"fleet": fleet.model_dump(mode="json")}, "fleet": {"machines": machines}}


def buys(arm: str, failover_s: list[float], ready_s: list[float] = READY_S) -> dict[str, Any]:
    gain = gain_of(arm, FAULT, np.array(failover_s), ready_s, asked(), manifest())
    assert gain is not None
    return gain


def test_short_fail_overs_cost_their_number_times_their_length() -> None:
    gain = buys("open", [0.02, 0.03, 0.04])
    per_year = asked().rates[FAULT].per_year
    assert gain["crash_recovery_s"] == pytest.approx(0.03)
    # The second server seldom fails within the seconds of a repair.
    assert gain["unavailability"] == pytest.approx(per_year * 0.03 / YEAR_S, rel=1e-3)
    assert gain["unavailability_most"] > gain["unavailability"]


def test_no_number_of_servers_makes_up_for_a_slow_fail_over() -> None:
    slow_gain, quick_gain = buys("nothing", [1.0, 1.1, 1.2]), buys("open", [0.02, 0.03, 0.04])
    assert slow_gain["servers"] is None
    assert slow_gain["usd_per_month_sized"] is None
    assert quick_gain["servers"] == 2
    assert quick_gain["usd_per_month_sized"] == pytest.approx(quick_gain["usd_per_month"])


def test_a_long_repair_is_made_up_for_by_a_third_server_and_costs_it() -> None:
    gain = buys("open", [0.02, 0.03, 0.04], [3600.0, 3600.0, 3600.0])
    assert gain["servers"] == 3
    assert gain["usd_per_month_sized"] > gain["usd_per_month"]


def test_the_arbiter_is_paid_where_the_strategy_has_it() -> None:
    with_arbiter, without_arbiter = (
        buys("arbiter", [0.02, 0.03, 0.04]),
        buys("open", [0.02, 0.03, 0.04]),
    )
    assert with_arbiter["usd_per_month"] > without_arbiter["usd_per_month"]


@pytest.mark.parametrize(("failover_s", "ready_s"), [([0.1, 0.2], READY_S), ([0.1] * 20, [2.0])])
def test_too_few_of_either_are_insufficient(failover_s: list[float], ready_s: list[float]) -> None:
    assert buys("open", failover_s, ready_s)["reason"] == "insufficient"


def test_a_fault_without_a_rate_buys_nothing() -> None:
    gain = gain_of("open", "process.hang", np.array([0.1] * 20), READY_S, asked(), manifest())
    assert gain is None


def test_the_table_has_nines_and_what_they_rest_on() -> None:
    row = {"arm": "open", "fault": FAULT, "clients": 1, "undisturbed_ms": 2.0}
    rows = [{**row, "bought": buys("open", [0.02, 0.03, 0.04])},
            {**row, "bought": buys("open", [0.02])}]  # fmt: skip
    table = bought_table(rows, asked().availability)
    assert table.rows[0][4].text == "7.94 nines"
    assert table.rows[1][2].text == "insufficient"
    basis: Any = gain_basis(asked(), manifest())
    assert basis is not None
    assert basis["prices"]["as_of"]
    assert basis["rates"][FAULT]["source"]
