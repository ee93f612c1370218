"""Summary of an experiment's spec, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.design.contracts import COMPARE_OFF
from experiments.design.locustfile import locustfile_of, locustfile_rows, sender_words
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.utilisation import calibration_words
from experiments.report.text import lasting, percent, plain

# settings of the arbiter; the other settings of a tier are its service's
_ARBITERS = ("policy", "replicas", "tokens", "look_ahead", "compare")


def spec_rows(run: RunFolder) -> list[tuple[str, str]]:
    spec = run.spec
    load, phases = spec.get("load") or {}, spec.get("phases") or {}
    rows = []
    if load:
        rows.append(("load", f"{load.get('user')}, {load.get('arrivals')} arrivals, "
                     f"{_rate_words(run)}; time-outs "
                     f"{plain(load.get('connect_timeout_s'))} s to connect, "
                     f"{plain(load.get('response_timeout_s'))} s to answer"))  # fmt: skip
    if load.get("tls_name"):
        rows.append(("https", f"certificates for {load['tls_name']}"))
    if load.get("insecure"):
        rows.append(("certificates", "not checked: insecure = true"))
    if spec.get("locustfile"):
        locustfile = locustfile_of(spec["locustfile"])
        rows += [("load sent by", sender_words(locustfile)), *locustfile_rows(locustfile)]
    if phases:
        stages = [f"{name.replace('_', '-')} {plain(s)} s" for name, s in phases.items() if s]
        rows.append(("phases", ", ".join(stages)))
    for name, arm in (spec.get("arms") or {}).items():
        tiers = [
            _tier_words(tier, settings) for tier, settings in (arm.get("settings") or {}).items()
        ]
        rows.append((f"arm {name}", "; ".join(tiers) or "as the fleet is"))
    rows.append(("interference", _interference_words(spec.get("interference") or {})))
    faults = [_fault_words(fault) for fault in spec.get("faults") or []]
    rows.append(("faults", "; ".join(faults) or "none"))
    if spec.get("failover"):
        rows.append(("fail-over", _failover_words(spec["failover"])))
    slo = spec.get("slo") or {}
    if slo:
        rows.append(("SLO", _slo_words(slo)))
    design = spec.get("design") or {}
    if design:
        order = f"order {design.get('order')}, repeated {plain(design.get('repeats'))} ×"
        arms = len(spec.get("arms") or ())
        arms_text = "both arms of a pair" if arms == 2 else "all arms of a round"
        paired = f", the same arrivals in {arms_text}" if arms > 1 else ""
        rows.append(("design", order + paired))
    return rows


def _rate_words(run: RunFolder) -> str:
    """Return the arrivals a second, requested or calibrated."""
    if calibration := run.summary.get("calibration"):
        return calibration_words(calibration)
    load = run.spec.get("load") or {}
    if load.get("utilisation") is not None:
        return f"{percent(load['utilisation'])} of the CPU of the tier that binds"
    if load.get("trace"):
        return f"as the trace {load['trace']} says, {plain(load.get('rate_per_s'))} per second"
    if stages := load.get("stages"):
        return f"{plain(load.get('rate_per_s'))} per second, then {_stage_words(stages)}"
    return f"{plain(load.get('rate_per_s'))} per second"


def _stage_words(stages: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{'in a line to ' if stage['ramp'] == 'linear' else ''}{plain(stage['target'])} "
        f"in {plain(stage['duration'])} s"
        for stage in stages
    )


def settings_of(run: RunFolder, arm: str) -> dict[str, dict[str, object]]:
    return dict(((run.spec.get("arms") or {}).get(arm) or {}).get("settings") or {})


def in_short(run: RunFolder, arm: str) -> str:
    """Return an arm's policies and replicas: "tad, r = (2, 2)"."""
    tiers = settings_of(run, arm).values()
    policies = dict.fromkeys(str(tier.get("policy")) for tier in tiers)
    replicas = ", ".join(str(tier.get("replicas")) for tier in tiers)
    return f"{', '.join(policies)}, r = ({replicas})" if policies else ""


def _tier_words(tier: str, settings: Mapping[str, Any]) -> str:
    parts = [f"{settings.get('policy')}, r = {settings.get('replicas')}"]
    if settings.get("tokens") is not None:
        tokens = settings["tokens"]
        parts.append(f"{tokens} token{'s' * (tokens != 1)} per server")
    if settings.get("look_ahead") is not None:
        parts.append(f"looks at r + {settings['look_ahead']} servers")
    if settings.get("compare") not in (None, COMPARE_OFF):
        parts.append(f"replies compared: {settings['compare']}")
    service_settings = {key: value for key, value in settings.items() if key not in _ARBITERS}
    parts += [f"{key} = {value}" for key, value in service_settings.items()]
    return f"{tier}: {', '.join(parts)}"


def _failover_words(failover: Mapping[str, Any]) -> str:
    crash, repair = failover.get("crash_mean_s"), failover.get("repair_mean_s")
    parts = [
        f"a heartbeat every {plain(failover.get('heartbeat_s'))} s, "
        f"lost after {failover.get('misses')}",
        f"boot time {lasting(failover.get('boot_time_s'))}",
        f"a crash every {lasting(crash)} and machine" if crash else "no crashes of our making",
        f"repairs of {lasting(repair)} on average" if repair else "no repairs",
    ]
    if failover.get("tiers"):
        parts.append(f"tiers {', '.join(failover['tiers'])}")
    return ", ".join(parts)


def _interference_words(interference: Mapping[str, Any]) -> str:
    if not interference or interference.get("pattern") in (None, "none"):
        return "none"
    kinds = " and ".join(str(kind) for kind in interference.get("kinds") or [])
    return (
        f"{kinds}, pattern {interference.get('pattern')}, "
        f"gaps of {plain(interference.get('mean_gap_s'))} s "
        f"and runs of {plain(interference.get('mean_run_s'))} s on average"
    )


def _fault_words(fault: Mapping[str, Any]) -> str:
    select = ", ".join(f"{key} {value}" for key, value in (fault.get("select") or {}).items()
                       if value is not None)  # fmt: skip
    values = fault.get("parameters") or {}
    parameters = ", ".join(f"{key} {value}" for key, value in values.items())
    length = "until reverted" if fault.get("sticky") else f"for {plain(fault.get('for_s'))} s"
    fault_text = f"{fault.get('kind')} ({parameters})" if parameters else str(fault.get("kind"))
    return f"{fault_text} on {select}, at {plain(fault.get('at_s'))} s {length}"


def _slo_words(slo: Mapping[str, Any]) -> str:
    limits_texts = []
    if slo.get("availability") is not None:
        limits_texts.append(f"availability {slo['availability'] * 100:g} %")
    limits_texts += [f"{key.removesuffix('_ms')} ≤ {plain(slo[key])} ms"
              for key in ("p50_ms", "p90_ms", "p95_ms", "p99_ms") if slo.get(key)]  # fmt: skip
    if slo.get("max_error_share") is not None:
        limits_texts.append(f"errors ≤ {100 * slo['max_error_share']:g} %")
    nested_limits = [*(slo.get("operations") or {}).items(), *(slo.get("sessions") or {}).items()]
    limits_texts += [f"{name}: {_slo_words(limits)}" for name, limits in nested_limits]
    if slo.get("confidence"):
        limits_texts.append(f"planned to be kept with {100 * slo['confidence']:g} %")
    if (is_preregistered := slo.get("preregistered")) is not None:
        limits_texts.append(f"set {'before' if is_preregistered else 'after'} the first run")
    return ", ".join(limits_texts)
