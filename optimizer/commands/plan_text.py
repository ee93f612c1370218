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
from core.tolerances import NO_BOUND
from core.units import duration
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
    plan: Plan, body: Mapping[str, Any], written: Sequence[Path], not_written: Sequence[Path]
) -> None:
    """Print plan.json for people.

    `written` are the files that hold more. `not_written` are files that were to hold a plan; they
    are unchanged, because there is no plan."""
    if plan.feasible is None:
        _print_lines("The plan is undecided", body["reasons"])
        say("")
    for line in body["warnings"]:
        out.print(Text(f"! {line}", style="yellow"))
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
    for path in not_written:
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
        say(f"\n{unproved(body)}")
        say("Hence no marginal prices, fronts or sensitivities: lower max_nodes or max_replicas,")
        say("or offer fewer variants, for these.")


def unproved(body: Mapping[str, Any]) -> str:
    """Return how much less a plan could cost, or how far a search came that proved nothing."""
    solver, choices = body["solver"], body["integrity"]
    if solver["gap"] < NO_BOUND:
        return f"Not proved to be the cheapest: a plan could cost up to {solver['gap']:.1%} less."
    time_words = f"after {solver['seconds']:.3g} s"
    if choices is not None and choices["choices_that_keep"] > 1:
        searched = f"{choices['choices_decided']:,} of {choices['choices_that_keep']:,}"
        return (
            f"Nothing is proved of its cost: {time_words}, {searched} choices of variants were "
            "searched to their end."
        )
    steps = f"{solver['solves']:,} solves and {solver['latency_cuts']:,} cuts"
    return f"Nothing is proved of its cost: {time_words}, {steps} the search had no lower bound."


def _data(tiers: Mapping[str, Any]) -> Iterable[str]:
    """Yield a line for each consequence of a tier's data and writes."""
    for name, tier_state in tiers.items():
        parts = []
        if tier_state["carries_per_s_most"] is not None:
            parts.append(
                f"writes use {tier_state['writes_use']:.0%} of every machine, and bound it to "
                f"{tier_state['carries_per_s_most']:.4g} requests/s"
            )
        if tier_state["copy_s"] is not None:
            parts.append(
                f"a machine that joins copies {tier_state['data_gb']:g} GB and serves after "
                f"{duration(tier_state['serves_again_s'])}"
            )
        if tier_state["takes_over_s"] is not None:
            parts.append(
                f"without a primary {tier_state['without_primary']:.2g} of the year "
                f"({duration(tier_state['takes_over_s'])} each time)"
            )
        if tier_state["data_lost"]:
            parts.append(f"without its last copy {tier_state['data_lost']:.2g}")
        if parts:
            yield f"{name}: {'; '.join(parts)}"


def _paid(tier: Mapping[str, Any]) -> str:
    way = tier["purchase"]
    return str(tier["instance_type"]) + ("" if way == "on-demand" else f"@{way}")


def _legend(tiers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the meanings of abbreviations in column heads, for those in the table."""
    used = sorted({Mechanism(tier["mechanism"]) for tier in tiers})
    return [
        *(f"by {mechanism}, {mechanism.meaning}" for mechanism in used),
        "r: copies of a request, of which the first good answer counts; tokens: requests that a "
        "server works on at once; load: of the machines that are needed for it",
    ]


def predicted_table(body: Mapping[str, Any]) -> Table:
    """Return each figure beside its limit, and the law's probabilities if the law predicts."""
    slo, predicted = body["inputs"]["slo"], body["predicted"]
    by_law = predicted["evidence"] != "simulated"
    law_margins = (body["margin"] or {}) if by_law else {}  # the law's error is not the simulator's
    head = ["predicted", "SLO", f"plan ({predicted['evidence']})", "of what is allowed"]
    if law_margins:
        confidence = slo.get("confidence")
        head += ["kept with", *([f"at {confidence:g}"] if confidence is not None else [])]
    table = plain_table(*head)
    for key in ("availability", "p95_ms", "p99_ms"):
        limit, value = slo.get(key), predicted.get(key)
        if limit is None and value is None:
            continue
        axis = Axis(key)
        value_text = "-" if value is None else axis.text(axis.from_stated(value))
        unit = " ms" if key != "availability" else ""
        margin = "" if limit is None or value is None else _margin(key, limit, value)
        cells = ["-" if limit is None else f"{limit:.12g}{unit}", value_text, margin]
        law_margin = law_margins.get(key)
        if law_margins:
            cells.append(f"{law_margin['probability_kept']:.0%}" if law_margin else "")
            if slo.get("confidence") is not None:
                cells.append(f"{law_margin['at_confidence_ms']:.2f} ms" if law_margin else "")
        table.add_row(_name(key), *cells)
    return table


def _present(present: Mapping[str, Any], usd: float) -> Table:
    table = plain_table("against today", "present", "plan", "USD more", left=3)
    for name, tier in present["tiers"].items():
        plan = tier["plan"] if tier["changes"] else "the same"
        table.add_row(name, tier["present"], plan, _difference(tier["usd_more"]))
    present_usd = f"{present['usd_per_month']:.2f}"
    table.add_row("USD a month", present_usd, f"{usd:.2f}", _difference(present["usd_more"]))
    return table


def _present_words(present: Mapping[str, Any]) -> str:
    if present["keeps_all_limits"]:
        return "The present fleet keeps all limits."
    predicted = present["predicted"]
    if predicted is None:
        return "The present fleet was not looked at: there was no time, or too many places."
    figures = [f"availability {_availability(predicted['availability'])}",
               f"load {_round_up(predicted['utilisation'])}"]  # fmt: skip
    figures += [
        f"{_name(key)} {'without end' if predicted[key] is None else f'{predicted[key]:.2f} ms'}"
        for key in ("p95_ms", "p99_ms")
        if key in predicted
    ]
    breach = f"does not keep {' and '.join(present['breaks'])}: {', '.join(figures)}."
    if present["keeps_all_limits"] is None:
        return f"The present fleet, not counted in all ways for want of time, {breach}"
    return f"The present fleet {breach}"


def _round_up(share: float) -> str:
    """Return the share in percent, rounded up: a share above a limit is not shown as the limit."""
    return f"{math.ceil(1000 * share - 1e-9) / 10:.1f}%"


def _load(load: Mapping[str, Any]) -> list[str]:
    """Return the planned load, with the load and the time up to which the fleet suffices."""
    planned, limit = f"{load['planned_per_s']:.4g}", f"{load['holds_to_per_s']:.4g}"
    text = f"Planned for {planned} requests/s, holds up to {limit} ({load['headroom']:+.0%})"
    text += f": then {load['gives_way']} gives way."
    if load["holds_months"] is not None:
        growth = f"{100 * load['growth_per_month']:.3g} % a month"
        text += f" At {growth} that is in {load['holds_months']:.1f} months."
    lines = [text]
    if load.get("day"):
        hours = sorted(load["day"], key=lambda hour: hour["per_s"])
        lines += [f"{name} hour: {_hour(hour)}" for name, hour in
                  (("quietest", hours[0]), ("busiest", hours[-1]))]  # fmt: skip
    return lines


def _hour(hour: Mapping[str, Any]) -> str:
    tail = [f"{_name(key)} {hour[key]:.0f} ms" for key in ("p95_ms", "p99_ms") if key in hour]
    parts = [f"{hour['per_s']:.4g} requests/s", f"load {hour['utilisation']:.0%}", *tail]
    return f"{hour['hour']:02d}:00, " + ", ".join(parts)


def _margin(key: str, limit: float, value: float) -> str:
    """Return the share of the SLO's unavailability, or of its time, that the plan uses."""
    used = (1.0 - value) / (1.0 - limit) if key == "availability" else value / limit
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
            rows.append((text, _difference(step["usd_more"]), _slope(step)))
        else:
            cut = price["why"][name].startswith(CUT)
            rows.append((text, "not found in time" if cut else without, ""))

    rows: list[tuple[str, str, str]] = []
    direction = "above" if axis.is_availability else "below"
    tighter, looser = price["tighter"], price["looser"]
    if axis.is_availability:
        nine = price["next_nine"]
        if nine is not None:
            rows.append((f"next nine {nine['target']:.12g}", _difference(nine["usd_more"]), ""))
        else:
            change("next_nine", "next nine", None, "")
    end = f", up to {text(tighter['limit'])}" if tighter and tighter["limit"] is not None else ""
    change("tighter", f"{direction} {text(price['reached'])}{end}", tighter, _difference(None))
    start = text(looser["limit"]) if looser and looser["limit"] is not None else "any"
    change("looser", f"{start} or looser", looser, _difference(0.0))
    return rows


def _slope(step: Step) -> str:
    for usd, unit in ((step.get("usd_per_nine"), "a nine"), (step.get("usd_per_ms"), "a ms")):
        if usd is not None:
            return f"{usd:.3g} {unit}"
    return ""


def _difference(usd: float | None) -> str:
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
        plan_mark = "plan: " if point["chosen"] else ""
        dots = "" if point["next_is_adjacent"] else " ..."
        table.add_row(*cells, f"{point['usd_per_month']:.2f}", f"{plan_mark}{point['fleet']}{dots}")
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
            table.add_row(
                *cells, f"{row['usd_per_month']:.2f}", _difference(row["usd_more"]), changed
            )
    return table


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
