"""Reads plan.toml: what is asked of a plan, and the service in figures where no run measured it.

`example.toml` is the whole schema, with comments. Every key is checked; a refusal names the file,
the key, what was expected and what came. With a results folder beside it, a figure that plan.toml
states replaces the measured one, and all others stay the run's.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optimizer.errors import InputError, require_count, require_positive, require_share
from optimizer.latency.station import POLICIES
from optimizer.plan.case import Slo, slo_from
from optimizer.plan.options import MECHANISMS, Limits
from optimizer.uncertainty import rates_from

_TOP = (
    *("experiment", "scheme", "arrival_per_s", "policy"),
    *("prices", "slo", "limits", "rates", "tiers"),
)
_LIMITS = ("max_nodes", "max_replicas", "max_utilisation", "max_collision")
_EXPERIMENT = r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?"
_TIER = r"[a-z][a-z0-9]{0,14}"
_TAKEN = ("arbiter", "influxdb", "grafana")  # names of a fleet's own machines

Check = Callable[[str, Any], Any]


def _text(place: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(place, expected="a text", came=repr(value))
    return value


def _matching(pattern: str, what: str) -> Check:
    def check(place: str, value: Any) -> str:
        if not re.fullmatch(pattern, _text(place, value)):
            raise InputError(place, expected=what, came=repr(value))
        return str(value)

    return check


def _one_of(*names: str) -> Check:
    def check(place: str, value: Any) -> str:
        if value not in names or not isinstance(value, str):
            raise InputError(place, expected=f"one of {', '.join(names)}", came=repr(value))
        return value

    return check


def _names(*known: str) -> Check:
    """A list that is not empty of names, of `known` ones if there are any."""

    def check(place: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise InputError(place, expected="a list that is not empty", came=repr(value))
        one = _one_of(*known) if known else _text
        return tuple(one(f"{place}[{number}]", name) for number, name in enumerate(value))

    return check


def _not_negative(place: str, value: Any) -> float:
    zero = value == 0 and isinstance(value, int | float) and not isinstance(value, bool)
    return 0.0 if zero else require_positive(place, value)


def _speed(place: str, value: Any) -> float:
    return require_positive(place, require_share(place, value))


def _share(place: str, value: Any) -> float:
    return require_share(place, value, one=False)


def _memory_mb(place: str, value: Any) -> float:
    return float(require_count(place, value, least=64))


def _at_least_one(place: str, value: Any) -> float:
    if require_positive(place, value) < 1.0:
        raise InputError(place, expected="at least 1", came=repr(value))
    return float(value)


# what a tier's key has to be, and the field of the fitted tier that it replaces, if there is one
FIGURES: Mapping[str, tuple[Check, str]] = {
    "requests_per_copy": (require_positive, "requests_per_copy"),
    "connections_per_copy": (require_positive, "connections_per_copy"),
    "processing_s": (require_positive, "processing_s"),
    "cv2": (require_positive, "service_cv2"),
    "interference_share": (_share, "interference_share"),
    "gamma": (_speed, "gamma"),
    "token_hold_s": (require_positive, "token_hold_s"),
}
MACHINE: Mapping[str, Check] = {
    "role": _text,
    "memory_mb": _memory_mb,
    "nic_mbps": _at_least_one,
    "disk_mbps": _at_least_one,
}
_OTHERS: Mapping[str, Check] = {
    "name": _matching(_TIER, "a letter and at most 14 of a-z, 0-9"),
    "backend": _text,
    "run_s": _not_negative,
    "instance_types": _names(),
    "mechanisms": _names(*MECHANISMS),
    "capacity": _text,
    "workload": _text,
}


@dataclass(frozen=True)
class StatedTier:
    """One of [[tiers]]: the checked values that the file gives."""

    name: str
    values: Mapping[str, Any]
    place: str


@dataclass(frozen=True)
class Stated:
    """A whole plan.toml. None: the file does not say."""

    path: Path
    slo: Slo
    experiment: str | None = None
    scheme: str | None = None
    arrival_per_s: float | None = None
    policy: str | None = None
    book: str | None = None
    region: str | None = None
    limits: Limits = field(default_factory=Limits)
    rates: Mapping[str, Any] = field(default_factory=dict)
    tiers: tuple[StatedTier, ...] = ()

    @property
    def place(self) -> str:
        """The file's name, as refusals show it."""
        return self.path.name


def read_plan(path: Path) -> Stated:
    """Read and check `path`. Raises InputError that names the file and the key."""
    raw = _parsed(path)
    place = path.name
    _only(place, raw, _TOP)
    prices = _table(place, raw, "prices")
    _only(f"{place}.prices", prices, ("book", "region"))
    limits = _table(place, raw, "limits")
    _only(f"{place}.limits", limits, _LIMITS)
    rates = _table(place, raw, "rates")
    rates_from(rates, f"{place}.rates")  # refuses what cannot be
    if "slo" not in raw:
        raise InputError(f"{place}.slo", expected="a table with the targets", came="nothing")
    return Stated(
        path=path,
        slo=slo_from(_table(place, raw, "slo"), f"{place}.slo"),
        experiment=_maybe(
            place,
            raw,
            "experiment",
            _matching(_EXPERIMENT, "at most 30 of a-z, 0-9 and inner hyphens, a letter first"),
        ),
        scheme=_maybe(place, raw, "scheme", _one_of("cloud", "on-prem")),
        arrival_per_s=_maybe(place, raw, "arrival_per_s", require_positive),
        policy=_maybe(place, raw, "policy", _one_of(*POLICIES)),
        book=_maybe(f"{place}.prices", prices, "book", _text),
        region=_maybe(f"{place}.prices", prices, "region", _text),
        limits=_limits(f"{place}.limits", limits),
        rates=rates,
        tiers=_tiers(place, raw.get("tiers", [])),
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        came = str(getattr(error, "strerror", None) or error)
        raise InputError(str(path), expected="a plan.toml", came=came) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), expected="TOML", came=str(error)) from error


def _only(place: str, raw: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in raw:
        if key not in known:
            raise InputError(
                f"{place}.{key}", expected=f"one of {', '.join(known)}", came="an unknown key"
            )


def _table(place: str, raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"{place}.{key}", expected="a table", came=repr(value))
    return value


def _maybe(place: str, raw: Mapping[str, Any], key: str, check: Check) -> Any:
    return check(f"{place}.{key}", raw[key]) if key in raw else None


def _limits(place: str, raw: Mapping[str, Any]) -> Limits:
    try:
        found = Limits(**raw)
    except InputError as error:  # it names limits.KEY: the file goes before it
        raise InputError(
            f"{place}.{error.place.removeprefix('limits.')}",
            expected=error.expected,
            came=error.came,
            do=error.do,
        ) from error
    if found.max_replicas > found.max_nodes and "max_replicas" in raw:
        raise InputError(
            f"{place}.max_replicas",
            expected=f"at most as many replicas as servers ({found.max_nodes} at most)",
            came=str(found.max_replicas),
        )
    return replace(found, max_replicas=min(found.max_replicas, found.max_nodes))


def _tiers(place: str, raw: Any) -> tuple[StatedTier, ...]:
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        raise InputError(f"{place}.tiers", expected="[[tiers]], one table each", came=repr(raw))
    found: list[StatedTier] = []
    for number, table in enumerate(raw, start=1):
        where = f"{place}.tiers[{number}]"
        checks = {**{k: check for k, (check, _) in FIGURES.items()}, **MACHINE, **_OTHERS}
        _only(where, table, tuple(checks))
        if "name" not in table:
            raise InputError(f"{where}.name", expected="the tier's name", came="nothing")
        values = {key: checks[key](f"{where}.{key}", value) for key, value in table.items()}
        name = values["name"]
        if name in _TAKEN or name in [one.name for one in found]:
            raise InputError(f"{where}.name", expected="a name of its own", came=repr(name))
        found.append(StatedTier(name, values, where))
    for tier, after in itertools.zip_longest(found, found[1:]):
        backend, right = tier.values.get("backend"), after.name if after else None
        if backend is not None and backend != right:
            raise InputError(
                f"{tier.place}.backend",
                expected=f"the next of [[tiers]] ({right})" if right else "none: it is the last",
                came=repr(backend),
            )
    return tuple(found)
