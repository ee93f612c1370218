"""A plan on a terminal: the fleet, its prediction, the reasons of its cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from core.terminal import out, plain_table, print_table, say
from core.vocabulary import Mechanism
from optimizer.commands.plan_domains import print_domains
from optimizer.commands.plan_hosts import print_hosts
from optimizer.commands.plan_integrity import print_integrity
from optimizer.commands.plan_limping import print_limping
from optimizer.commands.plan_schedule import print_schedule
from optimizer.commands.plan_simulated import print_simulated
from optimizer.plan.explain.curve import Axis
from optimizer.plan.explain.marginal import CUT, Prices, Step
from optimizer.plan.outcome import Plan


def print_plan(
    plan: Plan, body: Mapping[str, Any], written: Sequence[Path], left: Sequence[Path]
) -> None:
    """Print plan.json for people; `written` are the files that hold more, `left` those that were to
    hold a plan and are as they were, for there is none."""
    if plan.feasible is None:
        _print_lines("The plan is undecided", body["reasons"])
        say("")
    _print_warnings(body["warnings"])
    if plan.fleet is not None:
        _print_fleet(body, {name: tier["cpus"] for name, tier in plan.fleet.tiers.items()})
        if body["schedule"] is not None:
            print_schedule(body["schedule"])
        if body["hosts"] is not None:
            print_hosts(body["hosts"])
        _print_lines("What binds", body["binding"])
        if "marginal" in body:
            print_table(_marginal(body["marginal"]))
        for front in body.get("pareto", []):
            print_table(_front(front))
            if front["cut"]:
                say(f"  ... {front['cut']}")
        if "sensitivity" in body:
            print_table(_sensitivity(body["sensitivity"]))
    elif plan.feasible is False:
        _print_lines("No fleet meets the SLOs", body["reasons"])
    if body["integrity"] is not None:
        print_integrity(body["integrity"])
    if body["domains"] is not None:
        print_domains(body["domains"], body["usd_per_month"])
    if "limping" in body:
        print_limping(body["limping"], body["usd_per_month"])
    _print_lines("Not enough evidence for", body["insufficient"])
    _print_lines("Assumed, the most decisive first", body["assumptions"])
    for path in written:
        say(f"Wrote {path}")
    for path in left:
        say(f"Not written: {path}, since no plan counts; the file there is of earlier")


def _print_fleet(body: Mapping[str, Any], cores: Mapping[str, float]) -> None:
    places = dict.fromkeys((body["scheme"], body["region"]))
    where = f"{', '.join(places)}, prices of {body['prices_as_of']}"
    say(f"{body['usd_per_month']:.2f} USD a month ({where})")
    columns = ("cores", "active", "standby", "by", "r", "tokens", "load", "availability", "USD")
    table = plain_table("tier", "type", *columns, left=2)
    for name, tier in body["tiers"].items():
        table.add_row(
            name,
            _paid(tier),
            f"{cores[name]:g}",
            str(tier["nodes"]),
            str(tier["spares"]),
            tier["mechanism"],
            str(tier["replicas"]),
            str(tier["tokens"]),
            f"{tier['utilisation']:.0%}",
            _availability(tier["availability"]),
            f"{tier['usd_per_month']:.2f}",
        )
    print_table(table)
    for line in _legend(body["tiers"].values()):
        out.print(Text(line))
    print_table(predicted_table(body))
    print_simulated(body)
    if body["present"] is not None:
        print_table(_present(body["present"], body["usd_per_month"]))
        out.print(Text(_present_words(body["present"])))
    for line in (*_load(body["load"]), *_data(body["state"] or {})):
        out.print(Text(line))
    if not body["solver"]["proved"]:
        gap = body["solver"]["gap"]
        say(f"\nNot proved to be the cheapest: a plan could cost up to {gap:.1%} less. Hence no")
        say("marginal prices, fronts or sensitivities: lower max_nodes or max_replicas for these.")


def _data(tiers: Mapping[str, Any]) -> Iterable[str]:
    """Yield a line for each consequence of a tier's data and writes."""
    for name, one in tiers.items():
        parts = []
        if one["carries_per_s_most"] is not None:
            parts.append(
                f"writes use {one['writes_use']:.0%} of every machine, and bound it to "
                f"{one['carries_per_s_most']:.4g} requests/s"
            )
        if one["copy_s"] is not None:
            parts.append(
                f"a machine that joins copies {one['data_gb']:g} GB and serves after "
                f"{one['serves_again_s']:.0f} s"
            )
        if one["takes_over_s"] is not None:
            parts.append(
                f"without a primary {one['without_primary']:.2g} of the year "
                f"({one['takes_over_s']:g} s each time)"
            )
        if one["data_lost"]:
            parts.append(f"without its last copy {one['data_lost']:.2g}")
        if parts:
            yield f"{name}: {'; '.join(parts)}"


def _paid(tier: Mapping[str, Any]) -> str:
    way = tier["purchase"]
    return str(tier["instance_type"]) + ("" if way == "on-demand" else f"@{way}")


def _legend(tiers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the meanings of abbreviations in column heads, for those in the table."""
    used = sorted({Mechanism(tier["mechanism"]) for tier in tiers})
    return [
        *(f"by {one}, {one.meaning}" for one in used),
        "r: copies of a request, of which the first good answer counts; tokens: requests that a "
        "server works on at once; load: of the machines that are needed for it",
    ]


def predicted_table(body: Mapping[str, Any]) -> Table:
    """Return each figure beside its limit; with the law's probabilities where the law predicts."""
    slo, found = body["inputs"]["slo"], body["predicted"]
    by_law = found["evidence"] != "simulated"
    sure = (body["margin"] or {}) if by_law else {}  # the law's error is not the simulator's
    head = ["predicted", "SLO", f"plan ({found['evidence']})", "of what is allowed"]
    if sure:
        at = slo.get("confidence")
        head += ["kept with", *([f"at {at:g}"] if at is not None else [])]
    table = plain_table(*head)
    for key in ("availability", "p95_ms", "p99_ms"):
        asked, value = slo.get(key), found.get(key)
        if asked is None and value is None:
            continue
        axis = Axis(key)
        shown = "-" if value is None else axis.text(axis.from_stated(value))
        unit = " ms" if key != "availability" else ""
        margin = "" if asked is None or value is None else _margin(key, asked, value)
        cells = ["-" if asked is None else f"{asked:.12g}{unit}", shown, margin]
        one = sure.get(key)
        if sure:
            cells.append(f"{one['probability_kept']:.0%}" if one else "")
            if slo.get("confidence") is not None:
                cells.append(f"{one['at_confidence_ms']:.2f} ms" if one else "")
        table.add_row(_name(key), *cells)
    return table


def _present(there: Mapping[str, Any], usd: float) -> Table:
    table = plain_table("against today", "present", "plan", "USD more", left=3)
    for name, tier in there["tiers"].items():
        plan = tier["plan"] if tier["changes"] else "the same"
        table.add_row(name, tier["present"], plan, _more(tier["usd_more"]))
    present = f"{there['usd_per_month']:.2f}"
    table.add_row("USD a month", present, f"{usd:.2f}", _more(there["usd_more"]))
    return table


def _present_words(there: Mapping[str, Any]) -> str:
    if there["keeps_all_limits"]:
        return "The present fleet keeps all limits."
    found = there["predicted"]
    if found is None:
        return "The present fleet was not looked at: there was no time, or too many places."
    figures = [f"availability {_availability(found['availability'])}",
               f"load {_percent_up(found['utilisation'])}"]  # fmt: skip
    figures += [
        f"{_name(key)} {'without end' if found[key] is None else f'{found[key]:.2f} ms'}"
        for key in ("p95_ms", "p99_ms")
        if key in found
    ]
    broken = f"does not keep {' and '.join(there['breaks'])}: {', '.join(figures)}."
    if there["keeps_all_limits"] is None:
        return f"The present fleet, not counted in all ways for want of time, {broken}"
    return f"The present fleet {broken}"


def _percent_up(share: float) -> str:
    """Rounded up, so that what is above a limit is not shown as the limit."""
    return f"{math.ceil(1000 * share - 1e-9) / 10:.1f}%"


def _load(load: Mapping[str, Any]) -> list[str]:
    """Return the planned load, with the load and the time up to which the fleet suffices."""
    planned, most = f"{load['planned_per_s']:.4g}", f"{load['holds_to_per_s']:.4g}"
    text = f"Planned for {planned} requests/s, holds up to {most} ({load['headroom']:+.0%})"
    text += f": then {load['gives_way']} gives way."
    if load["holds_months"] is not None:
        growth = f"{100 * load['growth_per_month']:.3g} % a month"
        text += f" At {growth} that is in {load['holds_months']:.1f} months."
    lines = [text]
    if load.get("day"):
        hours = sorted(load["day"], key=lambda hour: hour["per_s"])
        lines += [f"{name} hour: {_hour(one)}" for name, one in
                  (("quietest", hours[0]), ("busiest", hours[-1]))]  # fmt: skip
    return lines


def _hour(hour: Mapping[str, Any]) -> str:
    tail = [f"{_name(key)} {hour[key]:.0f} ms" for key in ("p95_ms", "p99_ms") if key in hour]
    parts = [f"{hour['per_s']:.4g} requests/s", f"load {hour['utilisation']:.0%}", *tail]
    return f"{hour['hour']:02d}:00, " + ", ".join(parts)


def _margin(key: str, asked: float, value: float) -> str:
    """Return the used share of the SLO: of the unavailability, or of the time."""
    used = (1.0 - value) / (1.0 - asked) if key == "availability" else value / asked
    return f"{used:.0%}"


def _marginal(prices: Mapping[str, Prices]) -> Table:
    """Return the exact steps of the minimal cost next to the plan, by limit."""
    table = plain_table("marginal prices", "limit", "USD a month", "slope", left=2)
    for key, price in prices.items():
        name = _name(key)
        for change, usd, slope in _steps(Axis(key), price):
            table.add_row(name, change, usd, slope)
            name = ""
    return table


def _steps(axis: Axis, price: Prices) -> list[tuple[str, str, str]]:
    def text(value: float) -> str:
        return axis.text(axis.from_stated(value))

    def change(name: str, text: str, step: Step | None, without: str) -> None:
        if step is not None:
            rows.append((text, _more(step["usd_more"]), _slope(step)))
        else:
            cut = price["why"][name].startswith(CUT)
            rows.append((text, "not found in time" if cut else without, ""))

    rows: list[tuple[str, str, str]] = []
    word = "above" if axis.is_availability else "below"
    tighter, looser = price["tighter"], price["looser"]
    if axis.is_availability:
        nine = price["next_nine"]
        if nine is not None:
            rows.append((f"next nine {nine['target']:.12g}", _more(nine["usd_more"]), ""))
        else:
            change("next_nine", "next nine", None, "")
    end = f", up to {text(tighter['limit'])}" if tighter and tighter["limit"] is not None else ""
    change("tighter", f"{word} {text(price['reached'])}{end}", tighter, _more(None))
    start = text(looser["limit"]) if looser and looser["limit"] is not None else "any"
    change("looser", f"{start} or looser", looser, _more(0.0))
    return rows


def _slope(step: Step) -> str:
    for usd, unit in ((step.get("usd_per_nine"), "a nine"), (step.get("usd_per_ms"), "a ms")):
        if usd is not None:
            return f"{usd:.3g} {unit}"
    return ""


def _more(usd: float | None) -> str:
    """Return a difference with its sign; none where there is no difference."""
    if usd is None:
        return "not feasible"
    return f"{usd:+.2f}" if round(usd, 2) else "0.00"


def _front(front: Mapping[str, Any]) -> Table:
    axis = Axis(front["limit"])
    nines = ("nines",) if axis.is_availability else ()
    table = plain_table(f"cost against {_name(axis.key)}", *nines, "USD a month", "fleet", left=1)
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for point in front["points"]:
        value = point[axis.key]
        cells = [axis.text(axis.from_stated(value))]
        cells += [f"{point['nines']:.4f}"] if axis.is_availability else []
        mark = "plan: " if point["chosen"] else ""
        dots = "" if point["next_is_adjacent"] else " ..."
        table.add_row(*cells, f"{point['usd_per_month']:.2f}", f"{mark}{point['fleet']}{dots}")
    return table


def _sensitivity(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table("if it were", "times", "USD a month", "more", "tiers that change")
    for row in rows:
        cells = [row["input"], f"{row['factor']:g}"]
        if "cut" in row:
            table.add_row(*cells, row["cut"])
        elif row["usd_per_month"] is None:
            table.add_row(*cells, "not feasible")
        else:
            changed = ", ".join(row["changed"]) or "none"
            table.add_row(*cells, f"{row['usd_per_month']:.2f}", _more(row["usd_more"]), changed)
    return table


def _print_warnings(lines: Sequence[str]) -> None:
    for line in lines:
        out.print(Text(f"! {line}", style="yellow"))


def _print_lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        say("")
        out.print(title, style="bold", highlight=False)
        for line in lines:
            out.print(Padding(Text(line), (0, 0, 0, 2)))


def _name(key: str) -> str:
    return key.removesuffix("_ms")


def _availability(value: float) -> str:
    return Axis("availability").text(1.0 - value)
