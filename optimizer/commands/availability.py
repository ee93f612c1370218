"""`sparecraft availability`: one fleet's availability, or the least fleet for a target."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
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
    start_s = time.perf_counter()
    rate_options = {
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
    request = _ModelRequest(mechanism.value, scheme.value, nodes, horizon_s)
    if figure is not None and figure.suffix != ".svg":
        raise InputError("--figure", expected="a file called .svg", got=str(figure))
    rate_options = {name: value for name, value in rate_options.items() if value is not None}
    options = {f"rates.{name}": option_of(name) for name in rate_options}
    with told_by_option({**options, **_OPTIONS}):
        uncertain_rates = _rates(rates, rate_options, request)
        request.check(uncertain_rates, extra, target, confidence, seed)
        mean = uncertain_rates.mean()
        body = (
            request.least_body(mean, target)
            if target is not None
            else request.fleet_body(mean, extra)
        )
        if confidence is not None:
            body |= request.confidence_body(
                uncertain_rates, extra, target, confidence, 1 if seed is None else seed
            )
        extra_found = body.get("extra", extra)
        out_of_reach = target is not None and extra_found is None
        body["notes"] = request.notes(mean, extra_found)
        if (course is not None or figure is not None) and out_of_reach:
            body["notes"].append("No time course: there is no size to draw.")
        elif course is not None or figure is not None:
            curve = request.compute_course(mean, extra_found or 0, course or _POINTS)
            body["course"] = list(map(list, zip(curve.times_s, curve.probability, strict=True)))
            if figure is not None:
                _draw(curve, figure)
    body["seconds"] = time.perf_counter() - start_s
    if as_json:
        print_json(body)
    else:
        _print(body, horizon_s)
    raise typer.Exit(1 if out_of_reach else 0)


class _ModelRequest:
    """The requested model, and its answers as parts of the JSON body."""

    def __init__(self, mechanism: str, scheme: str, nodes: int, horizon_s: float) -> None:
        self.mechanism, self.scheme, self.nodes = mechanism, scheme, nodes
        self.horizon_s, self.kind = horizon_s, {"mechanism": mechanism, "scheme": scheme}
        self.pool_is_endless = mechanism == Mechanism.pf and scheme == Scheme.cloud

    def check(
        self,
        rates: UncertainRates,
        extra: int | None,
        target: float | None,
        confidence: float | None,
        seed: int | None,
    ) -> None:
        """Refuse options that contradict each other, or change nothing."""
        if self.pool_is_endless and extra is not None:
            raise InputError(
                "--extra",
                expected="none with pf in the cloud: its pool has no end",
                got=str(extra),
                hint="Leave it out.",
            )
        if (extra is not None) == (target is not None) and not (
            self.pool_is_endless and target is None
        ):
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

    def evaluate(self, rates: FailureRates, extra: int) -> Availability:
        from optimizer.availability import availability

        return availability(self.nodes, extra, rates, **self.kind, horizon_s=self.horizon_s)

    def fleet_body(self, rates: FailureRates, extra: int | None) -> JsonObject:
        from optimizer.availability import steady_state

        estimate = self.evaluate(rates, extra or 0)
        long_run = steady_state(self.nodes, extra or 0, rates, **self.kind)
        return {"availability": estimate.availability, **asdict(estimate), "steady_state": long_run}

    def least_body(self, rates: FailureRates, target: float) -> JsonObject:
        sizing = self.find_least(rates, target)
        estimate = sizing.reached or sizing.one_fewer
        assert estimate is not None
        return {
            "availability": estimate.availability,
            **asdict(estimate),
            "extra": sizing.extra,
            "reason": sizing.reason,
            "one_fewer": None if sizing.one_fewer is None else sizing.one_fewer.availability,
        }

    def find_least(self, rates: FailureRates, target: float) -> Sizing:
        from optimizer.availability import Sizing, least_extra_nodes, least_pool

        if self.mechanism == Mechanism.ara:
            return least_extra_nodes(
                self.nodes, target, rates, scheme=self.scheme, horizon_s=self.horizon_s
            )
        sizing = least_pool(self.nodes, target, rates, horizon_s=self.horizon_s)
        if not self.pool_is_endless:
            return sizing
        unlimited = self.evaluate(rates, 0)
        if not unlimited.keeps(target):
            return sizing
        from optimizer.availability.rates import availability_text

        least = availability_text(unlimited.unavailability_most)
        reason = f"the cloud's pool has no end: {least} with it"
        return Sizing(0, unlimited, None, reason)

    def confidence_body(
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
            interval = availability_interval(
                lambda r: self.evaluate(r, extra or 0), rates, level=confidence, rng=rng
            )
            ends = {"low": interval.low, "median": interval.median, "high": interval.high}
            return {"interval": {**ends, "level": confidence, "draws": interval.samples}}
        is_ara = self.mechanism == Mechanism.ara
        find_least = (
            partial(least_extra_nodes_at, scheme=self.scheme) if is_ara else partial(least_pool_at)
        )
        sizing = find_least(
            self.nodes, target, rates, confidence=confidence, rng=rng, horizon_s=self.horizon_s
        )
        return {
            "at_confidence": {
                "extra": sizing.extra,
                "confidence": confidence,
                "probability": sizing.probability,
                "one_fewer_probability": sizing.one_fewer_probability,
                "draws": sizing.samples,
                "reason": sizing.reason,
            }
        }

    def compute_course(self, rates: FailureRates, extra: int, points: int) -> TimeCourse:
        from optimizer.availability import time_course

        return time_course(
            self.nodes, extra, rates, **self.kind, horizon_s=self.horizon_s, points=points
        )


def _rates(path: Path | None, options: Mapping[str, Any], request: _ModelRequest) -> UncertainRates:
    """Return the [rates] of the file; options replace them."""
    from optimizer.availability.unused_rates import unused_rates
    from optimizer.uncertainty import rates_from

    table = {} if path is None else _table(path)
    if path is None and "crash_per_year" not in options:
        raise InputError(
            "--crash-per-year",
            expected="a rate, or --rates FILE",
            got="nothing",
            hint="Give one: crashes per node and year.",
        )
    for key, expected in unused_rates(
        {**table, **options}, scheme=request.scheme, mechanisms=(request.mechanism,)
    ):
        if key in options:
            raise InputError(
                option_of(key), expected=expected, got=str(options[key]), hint="Leave it out."
            )
    return rates_from({**table, **options}, "rates" if path is None else f"{path}: rates")


def _table(path: Path) -> JsonObject:
    from core.config_file import read_toml

    table = read_toml(path).values.get("rates")
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: rates",
            expected="a table [rates]",
            got="none" if table is None else repr(table),
            hint="Write [rates] and below it such keys as crash_per_year, each on its line.",
        )
    return table


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
    from optimizer.availability.rates import availability_text

    if "reason" in body:
        say("no size reaches it" if body["extra"] is None else f"extra {body['extra']}")
        say(body["reason"])
    lost_h = body["unavailability"] * horizon_s / 3600
    say(
        f"availability {availability_text(body['unavailability'] + body['error_bound'])}, "
        f"{lost_h:.3g} h without enough nodes in "
        f"{horizon_s / 86_400:g} days (error below {body['error_bound']:.1e})"
    )
    if body.get("steady_state") is not None:
        say(f"in the long run {availability_text(1.0 - body['steady_state'])}")
    if "interval" in body:
        interval = body["interval"]
        low, median, high = (
            availability_text(1.0 - interval[name]) for name in ("low", "median", "high")
        )
        say(f"between {low} and {high} with {interval['level']:.0%} probability, median {median}")
    for note in body["notes"]:
        say(note)
    if "at_confidence" in body:
        sizing = body["at_confidence"]
        say(f"at {sizing['confidence']:.0%} confidence: {sizing['reason']}")
    say(f"{body['states']} states, {body['seconds']:.3f} s")
