"""`sparecraft availability`: one fleet's availability, or the least fleet for a target."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError, require_count
from core.json_object import JsonObject
from core.terminal import JsonOption, option_of, print_json, say, told_by_option
from core.units import YEAR_S
from core.vocabulary import Mechanism, Scheme

if TYPE_CHECKING:
    from optimizer.availability import Availability, FailureRates, Sizing, TimeCourse
    from optimizer.uncertainty import UncertainRates

_POINTS = 200  # of a time course
_OPTIONS = {
    "target": "--target",
    "horizon_s": "--horizon-s",
    "level": "--confidence",
    "confidence": "--confidence",
    "points": "--course",
}  # by the models' arguments


def availability(
    mechanism: Annotated[
        Mechanism,
        typer.Option(help="ara: extra nodes are active; pf: they wait in a pool."),
    ],
    scheme: Annotated[
        Scheme,
        typer.Option(help="cloud: a crashed node is replaced; on-prem: only from the pool."),
    ],
    nodes: Annotated[int, typer.Option(help="Nodes that carry the load.")],
    extra: Annotated[
        int | None,
        typer.Option(help="Extra active nodes (ara) or pool nodes (pf on-prem)."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Instead of --extra: find the smallest size that reaches this."),
    ] = None,
    crash_per_year: Annotated[
        float | None, typer.Option(help="Crashes per node and year of 365 d.")
    ] = None,
    failover_s: Annotated[
        float | None, typer.Option(help="Mean fail-over time; default: 15.")
    ] = None,
    repair_s: Annotated[
        float | None, typer.Option(help="Mean repair time (on-prem); default: never repaired.")
    ] = None,
    horizon_s: Annotated[float, typer.Option(help="Time horizon; default: a year.")] = YEAR_S,
    standby_fraction: Annotated[
        float | None, typer.Option(help="Crash rate of a waiting node: 0 cold, 1 hot.")
    ] = None,
    common_cause: Annotated[
        float | None, typer.Option(help="beta: share of crashes that are common shocks.")
    ] = None,
    common_cause_nodes: Annotated[
        int | None, typer.Option(help="Nodes that a shock takes down; default: all.")
    ] = None,
    repair_crew: Annotated[
        int | None, typer.Option(help="Repairs at the same time; default: 1.")
    ] = None,
    limp_per_year: Annotated[
        float | None, typer.Option(help="Limping episodes per node and year.")
    ] = None,
    limp_recovery_s: Annotated[
        float | None, typer.Option(help="Mean length of an episode.")
    ] = None,
    limp_capacity: Annotated[
        float | None,
        typer.Option(help="Share of its capacity that a limping node has; default: 0."),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(help="A TOML file with a [rates] table: numbers, or observations."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="With observed rates: interval, or size, at this confidence."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --confidence: seed of the draws; default: 1.")
    ] = None,
    course: Annotated[
        int | None, typer.Option(min=1, help="Also compute P(enough nodes up) at this many times.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw that time course into this SVG file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the expected share of a year with enough nodes up (PCRAFT), with error bound.

    All nodes are up at the beginning. Exit code 1 if no size reaches the target.

    Example: sparecraft availability --mechanism pf --scheme on-prem --nodes 10 --target 0.999
    --crash-per-year 1

    Example: sparecraft availability --mechanism pf --scheme cloud --nodes 10 --crash-per-year 2
    """
    began = time.perf_counter()
    given = {
        "crash_per_year": crash_per_year,
        "failover_s": failover_s,
        "repair_s": repair_s,
        "standby_fraction": standby_fraction,
        "common_cause": common_cause,
        "common_cause_nodes": common_cause_nodes,
        "repair_crew": repair_crew,
        "limp_per_year": limp_per_year,
        "limp_recovery_s": limp_recovery_s,
        "limp_capacity": limp_capacity,
    }
    require_count("--nodes", nodes, least=1)
    require_count("--extra", extra or 0)
    asked = _ModelRequest(mechanism.value, scheme.value, nodes, horizon_s)
    if figure is not None and figure.suffix != ".svg":
        raise InputError("--figure", expected="a file called .svg", got=str(figure))
    given = {name: value for name, value in given.items() if value is not None}
    options = {f"rates.{name}": option_of(name) for name in given}
    with told_by_option({**options, **_OPTIONS}):
        known = _rates(rates, given, asked)
        asked.check(known, extra, target, confidence, seed)
        mean = known.mean()
        body = asked.sized(mean, target) if target is not None else asked.at(mean, extra)
        if confidence is not None:
            body |= asked.uncertain(known, extra, target, confidence, 1 if seed is None else seed)
        size = body.get("extra", extra)
        out_of_reach = target is not None and size is None
        body["notes"] = asked.notes(mean, size)
        if (course is not None or figure is not None) and out_of_reach:
            body["notes"].append("No time course: there is no size to draw.")
        elif course is not None or figure is not None:
            found = asked.course(mean, size or 0, course or _POINTS)
            body["course"] = list(map(list, zip(found.times_s, found.probability, strict=True)))
            if figure is not None:
                _draw(found, figure)
    body["seconds"] = time.perf_counter() - began
    if as_json:
        print_json(body)
    else:
        _print(body, horizon_s)
    raise typer.Exit(1 if out_of_reach else 0)


class _ModelRequest:
    """The model asked for, and its answers as parts of the JSON body."""

    def __init__(self, mechanism: str, scheme: str, nodes: int, horizon_s: float) -> None:
        self.mechanism, self.scheme, self.nodes = mechanism, scheme, nodes
        self.horizon_s, self.how = horizon_s, {"mechanism": mechanism, "scheme": scheme}
        self.endless = mechanism == Mechanism.pf and scheme == Scheme.cloud

    def check(
        self,
        rates: UncertainRates,
        extra: int | None,
        target: float | None,
        confidence: float | None,
        seed: int | None,
    ) -> None:
        """Refuse options that contradict each other, or change nothing."""
        if self.endless and extra is not None:
            raise InputError(
                "--extra",
                expected="none with pf in the cloud: its pool has no end",
                got=str(extra),
                hint="Leave it out.",
            )
        if (extra is not None) == (target is not None) and not (self.endless and target is None):
            got = "neither" if extra is None else "both"
            hint = "Give --extra for one fleet's availability, --target for the least fleet."
            raise InputError("--extra", expected="either --extra or --target", got=got, hint=hint)
        if confidence is not None and not rates.uncertain:
            raise InputError(
                "--confidence",
                expected="observed rates beside it (--rates FILE)",
                got="rates without uncertainty",
                hint="Leave it out.",
            )
        if seed is not None and confidence is None:
            raise InputError(
                "--seed", expected="--confidence beside it", got="none", hint="Leave it out."
            )

    def notes(self, rates: FailureRates, extra: int | None) -> list[str]:
        """Remarks on the answer; `extra` is None if there is no size."""
        pool = self.mechanism == Mechanism.pf and self.scheme == Scheme.on_prem
        if pool and extra == 0 and rates.repair_s is not None:
            return [
                "A repaired node goes back to the pool (PCRAFT Fig. 1a), and a pool of 0 takes "
                "none: repair has no effect here. With --mechanism ara it returns to service."
            ]
        return []

    def model(self, rates: FailureRates, extra: int) -> Availability:
        from optimizer.availability import availability

        return availability(self.nodes, extra, rates, **self.how, horizon_s=self.horizon_s)

    def at(self, rates: FailureRates, extra: int | None) -> JsonObject:
        from optimizer.availability import steady_state

        found = self.model(rates, extra or 0)
        limit = steady_state(self.nodes, extra or 0, rates, **self.how)
        return {**_figures(found), "steady_state": limit}

    def sized(self, rates: FailureRates, target: float) -> JsonObject:
        found = self.least(rates, target)
        shown = found.reached or found.one_fewer
        assert shown is not None
        return {
            **_figures(shown),
            "extra": found.extra,
            "reason": found.reason,
            "one_fewer": None if found.one_fewer is None else found.one_fewer.availability,
        }

    def least(self, rates: FailureRates, target: float) -> Sizing:
        from optimizer.availability import Sizing, least_extra_nodes, least_pool

        if self.mechanism == Mechanism.ara:
            return least_extra_nodes(
                self.nodes, target, rates, scheme=self.scheme, horizon_s=self.horizon_s
            )
        found = least_pool(self.nodes, target, rates, horizon_s=self.horizon_s)
        if not self.endless:
            return found
        unlimited = self.model(rates, 0)
        if not unlimited.keeps(target):
            return found
        from optimizer.availability.rates import shown

        reason = f"the cloud's pool has no end: {shown(unlimited.unavailability_most)} with it"
        return Sizing(0, unlimited, None, reason)

    def uncertain(
        self,
        rates: UncertainRates,
        extra: int | None,
        target: float | None,
        confidence: float,
        seed: int,
    ) -> JsonObject:
        import numpy as np

        from optimizer.uncertainty import availability_interval, least_extra_nodes_at, least_pool_at

        rng = np.random.default_rng(seed)
        if target is None:
            found = availability_interval(
                lambda r: self.model(r, extra or 0), rates, level=confidence, rng=rng
            )
            ends = {"low": found.low, "median": found.median, "high": found.high}
            return {"interval": {**ends, "level": confidence, "draws": found.samples}}
        is_ara = self.mechanism == Mechanism.ara
        least = (
            partial(least_extra_nodes_at, scheme=self.scheme) if is_ara else partial(least_pool_at)
        )
        sure = least(
            self.nodes, target, rates, confidence=confidence, rng=rng, horizon_s=self.horizon_s
        )
        return {
            "at_confidence": {
                "extra": sure.extra,
                "confidence": confidence,
                "probability": sure.probability,
                "one_fewer_probability": sure.one_fewer_probability,
                "draws": sure.samples,
                "reason": sure.reason,
            }
        }

    def course(self, rates: FailureRates, extra: int, points: int) -> TimeCourse:
        from optimizer.availability import time_course

        return time_course(
            self.nodes, extra, rates, **self.how, horizon_s=self.horizon_s, points=points
        )


def _figures(found: Availability) -> JsonObject:
    return {
        "availability": found.availability,
        "unavailability": found.unavailability,
        "error_bound": found.error_bound,
        "states": found.states,
    }


def _rates(path: Path | None, given: Mapping[str, Any], asked: _ModelRequest) -> UncertainRates:
    """Return the [rates] of the file, replaced by options where given."""
    from optimizer.availability import FailureRates
    from optimizer.availability.unused_rates import unused_rates
    from optimizer.uncertainty import rates_from

    table = {} if path is None else _table(path)
    if path is None and "crash_per_year" not in given:
        raise InputError(
            "--crash-per-year",
            expected="a rate, or --rates FILE",
            got="nothing",
            hint="Give one: crashes per node and year.",
        )
    assert {f.name for f in fields(FailureRates)} >= set(given)
    for key, expected in unused_rates(
        {**table, **given}, scheme=asked.scheme, mechanisms=(asked.mechanism,)
    ):
        if key in given:
            raise InputError(
                option_of(key), expected=expected, got=str(given[key]), hint="Leave it out."
            )
    return rates_from({**table, **given}, "rates" if path is None else f"{path}: rates")


def _table(path: Path) -> JsonObject:
    from core.config_file import read_toml

    found = read_toml(path).values.get("rates")
    if not isinstance(found, dict):
        raise InputError(
            f"{path}: rates",
            expected="a table [rates]",
            got="none" if found is None else repr(found),
            hint="Write [rates] and below it such keys as crash_per_year, each on its line.",
        )
    return found


def _draw(course: TimeCourse, path: Path) -> None:
    import altair as alt

    from core.chart_style import BLUE, data, write_figures

    rows = [
        {"days": t / 86_400.0, "p": p}
        for t, p in zip(course.times_s, course.probability, strict=True)
    ]
    chart = (
        alt.Chart(data(rows), title="Probability that enough nodes are up")
        .mark_line(color=BLUE)
        .encode(
            x=alt.X("days:Q", scale=alt.Scale(nice=False), title="time since all were up (days)"),
            y=alt.Y("p:Q", title="probability", scale=alt.Scale(zero=False)),
        )
        .properties(width=620, height=300)
    )
    write_figures(path.parent, {path.name.removesuffix(".svg"): chart})


def _print(body: Mapping[str, Any], horizon_s: float) -> None:
    from optimizer.availability.rates import shown

    if "reason" in body:
        say("no size reaches it" if body["extra"] is None else f"extra {body['extra']}")
        say(body["reason"])
    lost_h = body["unavailability"] * horizon_s / 3600
    say(
        f"availability {shown(body['unavailability'] + body['error_bound'])}, "
        f"{lost_h:.3g} h without enough nodes in "
        f"{horizon_s / 86_400:g} days (error below {body['error_bound']:.1e})"
    )
    if body.get("steady_state") is not None:
        say(f"in the long run {shown(1.0 - body['steady_state'])}")
    if "interval" in body:
        found = body["interval"]
        say(
            f"between {shown(1.0 - found['low'])} and {shown(1.0 - found['high'])} with "
            f"{found['level']:.0%} probability, median {shown(1.0 - found['median'])}"
        )
    for note in body["notes"]:
        say(note)
    if "at_confidence" in body:
        found = body["at_confidence"]
        say(f"at {found['confidence']:.0%} confidence: {found['reason']}")
    say(f"{body['states']} states, {body['seconds']:.3f} s")
