"""Reads and checks a price book."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.errors import InputError, require_positive

BOOK = Path(__file__).parent / "ec2.toml"
HOURS_PER_MONTH = 730.0
_KEYS = {"vcpus", "memory_gb", "baseline_share"}


@dataclass(frozen=True)
class Instance:
    """One instance type in one region. `baseline_share` is below 1 for burstable types only."""

    name: str
    vcpus: int
    memory_gb: float
    usd_per_hour: float
    baseline_share: float = 1.0

    @property
    def sustained_cores(self) -> float:
        return self.vcpus * self.baseline_share

    @property
    def usd_per_month(self) -> float:
        return self.usd_per_hour * HOURS_PER_MONTH


@dataclass(frozen=True)
class PriceBook:
    """The instances of each region, the day the prices were true, and where they are from."""

    as_of: str
    source: str
    regions: Mapping[str, tuple[Instance, ...]]

    def instances(self, region: str) -> tuple[Instance, ...]:
        """Instances of `region`, cheapest first. Raises InputError for an unknown region."""
        found = self.regions.get(region)
        if found is None:
            known = ", ".join(sorted(self.regions))
            raise InputError("region", expected=f"one of {known}", came=repr(region))
        return found


def load_prices(path: Path = BOOK) -> PriceBook:
    """Read a price book. Raises InputError that names the key, what was expected and what came."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), expected="a price book", came=str(error.strerror)) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), expected="TOML", came=str(error)) from error
    kinds = _table(path, raw, "instances")
    regions = {
        region: _region(f"{path.name}: usd_per_hour.{region}", prices, kinds)
        for region, prices in _table(path, raw, "usd_per_hour").items()
    }
    if raw.get("currency") != "USD":
        raise InputError(f"{path.name}: currency", expected="USD", came=repr(raw.get("currency")))
    return PriceBook(_day(path, raw), _text(path, raw, "source"), regions)


def _table(path: Path, raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    if not isinstance(value, dict) or not value:
        raise InputError(
            f"{path.name}: {key}", expected="a table that is not empty", came=repr(value)
        )
    return value


def _text(path: Path, raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{path.name}: {key}", expected="a text", came=repr(value))
    return value


def _day(path: Path, raw: Mapping[str, Any]) -> str:
    text = _text(path, raw, "as_of")
    try:
        datetime.date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{path.name}: as_of", expected="YYYY-MM-DD", came=repr(text)) from error
    return text


def _region(place: str, prices: Any, kinds: Mapping[str, Any]) -> tuple[Instance, ...]:
    if not isinstance(prices, dict) or not prices:
        raise InputError(place, expected="a price for at least one instance", came=repr(prices))
    found = [_instance(f"{place}.{name}", name, usd, kinds) for name, usd in prices.items()]
    return tuple(sorted(found, key=lambda i: (i.usd_per_hour, i.name)))


def _instance(place: str, name: str, usd: Any, kinds: Mapping[str, Any]) -> Instance:
    kind = kinds.get(name)
    if not isinstance(kind, dict):
        raise InputError(place, expected="an instance listed under [instances]", came=name)
    unknown = set(kind) - _KEYS
    if unknown:
        raise InputError(f"instances.{name}", expected=f"only {sorted(_KEYS)}", came=str(unknown))
    vcpus = kind.get("vcpus")
    if not isinstance(vcpus, int) or isinstance(vcpus, bool) or vcpus < 1:
        raise InputError(f"instances.{name}.vcpus", expected="an integer >= 1", came=repr(vcpus))
    memory_gb = require_positive(f"instances.{name}.memory_gb", kind.get("memory_gb", 0))
    share = require_positive(f"instances.{name}.baseline_share", kind.get("baseline_share", 1.0))
    if share > 1:
        raise InputError(f"instances.{name}.baseline_share", expected="at most 1", came=str(share))
    return Instance(name, vcpus, memory_gb, require_positive(place, usd), share)
