"""The service of a plan: stated in plan.toml, or measured and partly overridden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.config_file import ConfigFile, Problem
from core.vocabulary import Scheme
from optimizer.fit import Estimate, ServiceFit, TierFit
from optimizer.fit.spec import TierSpec
from optimizer.plan.inputs.case import Slo
from optimizer.plan.inputs.demand import is_stated, stated_figure
from optimizer.plan.inputs.plan_file import FIGURES, MACHINE, DeclaredTier, PlanFile
from optimizer.prices import BUILT_IN, PriceBook, price_book

_DEFAULTS: Mapping[str, float] = {
    "requests_per_copy": 1.0,
    "cv2": 1.0,
    "interference_share": 0.0,
    "gamma": 1.0,
    "run_s": 0.0,
    "nic_mbps": 1000.0,
    "disk_mbps": 200.0,
}
# beginning of the fit's note on a missing figure, by the key that replaces the figure
_PHRASES: Mapping[str, str] = {
    "arrival_per_s": "page rate:",
    "processing_s": "tier {tier}: processing time",
    "requests_per_copy": "tier {tier}: requests per page",
    "gamma": "tier {tier}: slowdown",
    "token_hold_s": "tier {tier}: token hold",
    "writes": "tier {tier}: share of writes",
}


def book_of(book: str | None, scheme: str, folder: Path) -> PriceBook:
    """Return the price book of this name or file, or else the scheme's book.

    A relative file name is relative to `folder`.
    """
    name = book or ("on-prem" if scheme == Scheme.on_prem else "ec2")
    return price_book(name if name in BUILT_IN else folder / name)


def region_of(book: PriceBook, region: str | None) -> str:
    """Return the region, which may be missing for a book with a single one."""
    if region is not None:
        return region
    return next(iter(book.regions)) if len(book.regions) == 1 else "us-east-1"


def stated_service(file: PlanFile) -> ServiceFit:
    """Return the service of a plan.toml without a results folder.

    Raises: InputError for a figure that was not measured and that the file does not state.
    """
    plan, needed = file.stated, "a value, since there is no results folder"
    for key in ("scheme", "arrival_per_s", "tiers"):
        if not getattr(plan, key):
            raise file.source.error(key, expected=needed, got="nothing", hint="State it.")
    for number, tier in enumerate(plan.tiers):
        for key in ("role", "processing_s", "memory_mb"):
            if getattr(tier, key) is None:
                raise file.source.error(
                    "tiers", number, key, expected=needed, got="nothing", hint="State it."
                )
    file.source.refuse_all(_idle_neighbours(plan.tiers))
    names = [tier.name for tier in plan.tiers]
    fits = [
        _stated_fit(tier, after) for tier, after in zip(plan.tiers, [*names[1:], None], strict=True)
    ]
    return ServiceFit(
        experiment=plan.experiment or "planned",
        run="",
        scheme=str(plan.scheme),
        pages_per_s=stated_figure(plan.arrival_per_s),
        tiers=tuple(fits),
        arms=(),
        stated_rates={},
        missing=(),
        thin=(),
    )


def _idle_neighbours(tiers: Sequence[DeclaredTier]) -> Iterator[Problem]:
    """Yield the keys of neighbours that have no effect without other keys."""
    for number, tier in enumerate(tiers):
        if tier.interference_share and tier.gamma is None:
            expected = (
                "the speed that neighbours leave (1: all of it), as there is interference_share"
            )
            yield Problem(("tiers", number, "gamma"), expected, "nothing", "State it.")
        for key in ("gamma", "run_s"):
            is_idle = getattr(tier, key) not in (None, 0.0, 1.0 if key == "gamma" else 0.0)
            if is_idle and not tier.interference_share:
                expected = "it beside interference_share, how much of the time neighbours run"
                yield Problem(("tiers", number, key), expected, "no such share", "Leave it out.")


def check_first(source: ConfigFile, service: ServiceFit, slo: Slo) -> None:
    """Raises InputError if the first tier has other than one request per page.

    The latency limits are those of a page, and such a tier would have more load without more work.
    """
    if not slo.latency_ms or not service.tiers:
        return
    first = service.tiers[0]
    count = first.requests_per_copy
    if is_stated(count) and count.value != 1.0:
        raise source.error(
            "tiers",
            0,
            "requests_per_copy",
            expected=f"1 on the first tier ({first.spec.name}): a page is one request there",
            got=f"{count.value:g}",
            hint="State arrival_per_s in its requests, and the limits of one.",
        )


def _stated_fit(tier: DeclaredTier, after: str | None) -> TierFit:
    values = {**_DEFAULTS, **tier.values}
    values.setdefault("connections_per_copy", values["requests_per_copy"])
    spec = TierSpec(
        name=tier.name,
        role=values["role"],
        calls=(after,) if after else (),
        nodes=0,
        cpus=None,
        memory_mb=values["memory_mb"],
        nic_mbps=values["nic_mbps"],
        disk_mbps=values["disk_mbps"],
    )
    figures = {name: stated_figure(values.get(key)) for key, name in FIGURES.items()}
    run_s = values["run_s"]
    return TierFit(spec, interference_run_s=run_s, tokens=1, writes_everywhere=True, **figures)


def merge_stated(service: ServiceFit, file: PlanFile) -> tuple[ServiceFit, tuple[str, ...]]:
    """Return the measured service with the figures that the file states, and their names.

    Raises: InputError for tiers that the run does not have.
    """
    plan, tiers = file.stated, {tier.spec.name: tier for tier in service.tiers}
    replaced: list[str] = []
    for number, tier in enumerate(plan.tiers):
        if tier.name not in tiers:
            expected = f"a tier of the run ({', '.join(tiers)})"
            raise file.source.error("tiers", number, "name", expected=expected, got=repr(tier.name))
        tiers[tier.name] = _replace_figures(tiers[tier.name], tier, replaced)
    pages: Estimate = service.pages_per_s
    if plan.arrival_per_s is not None:
        pages = stated_figure(plan.arrival_per_s)
        replaced.append("arrival_per_s")
    if plan.scheme is not None:
        replaced.append("scheme")
    replaced += [f"rates.{key}" for key in plan.rates]
    return (
        replace(
            service,
            experiment=plan.experiment or service.experiment,
            scheme=plan.scheme or service.scheme,
            pages_per_s=pages,
            tiers=tuple(tiers[tier.spec.name] for tier in service.tiers),
            missing=tuple(m for m in service.missing if not _is_declared(m, replaced)),
            thin=tuple(m for m in service.thin if not _is_declared(m, replaced)),
        ),
        tuple(replaced),
    )


def _replace_figures(fit: TierFit, tier: DeclaredTier, replaced: list[str]) -> TierFit:
    for key, value in tier.values.items():
        if key in FIGURES:
            figure: dict[str, Any] = {FIGURES[key]: stated_figure(value)}
            fit = replace(fit, **figure)
        elif key in MACHINE:
            fit = replace(fit, spec=replace(fit.spec, **{key: value}))
        elif key == "run_s":
            fit = replace(fit, interference_run_s=value)
        if key not in ("name", "present"):
            replaced.append(f"tiers.{tier.name}.{key}")
    return fit


def _is_declared(missing: str, replaced: list[str]) -> bool:
    """True if the figure that the fit misses is among the stated ones."""
    for text in replaced:
        tier, _, key = text.removeprefix("tiers.").rpartition(".")
        phrase = _PHRASES.get(key)
        if phrase is not None and missing.startswith(phrase.format(tier=tier)):
            return True
    return False
