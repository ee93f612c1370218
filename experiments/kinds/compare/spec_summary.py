"""Summary of an experiment's spec, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.design.contracts import COMPARE_OFF
from experiments.design.locustfile import locustfile_of, locustfile_rows, sender_words
from experiments.kinds.compare.folder import RunFolder
from experiments.kinds.compare.utilisation import calibration_words
from experiments.report.text import percent, plain

# settings that are the arbiter's own
_ARBITERS = ("policy", "replicas", "tokens", "look_ahead", "compare")


def spec_rows(run: RunFolder) -> list[tuple[str, str]]:
    """Return the experiment's spec, in words."""
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
        found = locustfile_of(spec["locustfile"])
        rows += [("load sent by", sender_words(found)), *locustfile_rows(found)]
    if phases:
        stages = [f"{name.replace('_', '-')} {plain(s)} s" for name, s in phases.items() if s]
        rows.append(("phases", ", ".join(stages)))
    for name, arm in (spec.get("arms") or {}).items():
        words = [_tier_words(tier, one) for tier, one in (arm.get("settings") or {}).items()]
        rows.append((f"arm {name}", "; ".join(words) or "as the fleet is"))
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
        whose = "both arms of a pair" if arms == 2 else "all arms of a round"
        paired = f", the same arrivals in {whose}" if arms > 1 else ""
        rows.append(("design", order + paired))
    return rows


def _rate_words(run: RunFolder) -> str:
    """Arrivals a second, as asked or as a calibration found them."""
    if found := run.summary.get("calibration"):
        return calibration_words(found)
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
        f"{'in a line to ' if one['ramp'] == 'linear' else ''}{plain(one['target'])} "
        f"in {plain(one['duration'])} s"
        for one in stages
    )


def settings_of(run: RunFolder, arm: str) -> dict[str, dict[str, object]]:
    """Return an arm's settings of each tier."""
    return dict(((run.spec.get("arms") or {}).get(arm) or {}).get("settings") or {})


def in_short(run: RunFolder, arm: str) -> str:
    """Return an arm's policies and replicas: "tad, r = (2, 2)"."""
    tiers = settings_of(run, arm).values()
    policies = dict.fromkeys(str(tier.get("policy")) for tier in tiers)
    replicas = ", ".join(str(tier.get("replicas")) for tier in tiers)
    return f"{', '.join(policies)}, r = ({replicas})" if policies else ""


def _tier_words(tier: str, settings: Mapping[str, Any]) -> str:
    """Return an arm's settings of a tier."""
    words = [f"{settings.get('policy')}, r = {settings.get('replicas')}"]
    if settings.get("tokens") is not None:
        tokens = settings["tokens"]
        words.append(f"{tokens} token{'s' * (tokens != 1)} per server")
    if settings.get("look_ahead") is not None:
        words.append(f"looks at r + {settings['look_ahead']} servers")
    if settings.get("compare") not in (None, COMPARE_OFF):
        words.append(f"replies compared: {settings['compare']}")
    own = {key: value for key, value in settings.items() if key not in _ARBITERS}
    words += [f"{key} = {value}" for key, value in own.items()]
    return f"{tier}: {', '.join(words)}"


def _failover_words(asked: Mapping[str, Any]) -> str:
    crash, repair = asked.get("crash_mean_s"), asked.get("repair_mean_s")
    words = [
        f"a heartbeat every {plain(asked.get('heartbeat_s'))} s, lost after {asked.get('misses')}",
        f"boot time {plain(asked.get('boot_time_s'))} s",
        f"crashes every {plain(crash)} s and machine" if crash else "no crashes of our making",
        f"repairs of {plain(repair)} s on average" if repair else "no repairs",
    ]
    if asked.get("tiers"):
        words.append(f"tiers {', '.join(asked['tiers'])}")
    return ", ".join(words)


def _interference_words(asked: Mapping[str, Any]) -> str:
    if not asked or asked.get("pattern") in (None, "none"):
        return "none"
    kinds = " and ".join(str(kind) for kind in asked.get("kinds") or [])
    return (
        f"{kinds}, pattern {asked.get('pattern')}, gaps of {plain(asked.get('mean_gap_s'))} s "
        f"and runs of {plain(asked.get('mean_run_s'))} s on average"
    )


def _fault_words(fault: Mapping[str, Any]) -> str:
    select = ", ".join(f"{key} {value}" for key, value in (fault.get("select") or {}).items()
                       if value is not None)  # fmt: skip
    given = fault.get("parameters") or {}
    parameters = ", ".join(f"{key} {value}" for key, value in given.items())
    length = "until reverted" if fault.get("sticky") else f"for {plain(fault.get('for_s'))} s"
    words = f"{fault.get('kind')} ({parameters})" if parameters else str(fault.get("kind"))
    return f"{words} on {select}, at {plain(fault.get('at_s'))} s {length}"


def _slo_words(slo: Mapping[str, Any]) -> str:
    words = []
    if slo.get("availability") is not None:
        words.append(f"availability {slo['availability'] * 100:g} %")
    words += [f"{key.removesuffix('_ms')} ≤ {plain(slo[key])} ms"
              for key in ("p50_ms", "p90_ms", "p95_ms", "p99_ms") if slo.get(key)]  # fmt: skip
    if slo.get("max_error_share") is not None:
        words.append(f"errors ≤ {100 * slo['max_error_share']:g} %")
    own = [*(slo.get("operations") or {}).items(), *(slo.get("sessions") or {}).items()]
    words += [f"{name}: {_slo_words(limits)}" for name, limits in own]
    if slo.get("confidence"):
        words.append(f"planned to be kept with {100 * slo['confidence']:g} %")
    if (known := slo.get("preregistered")) is not None:
        words.append(f"set {'before' if known else 'after'} the first run")
    return ", ".join(words)
