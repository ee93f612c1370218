"""`[bitflips]`: which programs, in which variants, how many injections, and their limits."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from core.config_file import Strict
from experiments.kinds.bitflips.services import SERVICES

Variant = Literal["native", "ilr", "tx", "log", "compared-2", "compared-3"]
Program = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]


class BitflipsSection(Strict):
    """Each injection is a whole run of a program with one changed result."""

    programs: Annotated[tuple[Program, ...], Field(strict=False, min_length=1)]
    """Kernels: NAME.c in agents/harden/kernels; services: memcached, redis, apache2, under load."""
    variants: Annotated[tuple[Variant, ...], Field(strict=False, min_length=1)] = (
        "native",
        "ilr",
        "tx",
        "log",
    )
    """`native`; `ilr`: a shadow data flow, a difference stops the program; `tx`: in hardware
    transactions, tried again; `log`: the same by a checkpoint and a log of stores, on any CPU;
    `compared-2`, `compared-3`: native, one of so many nodes behind an arbiter that asks two for
    each read and refuses what they do not agree on (memcached only)."""
    injections: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """Injections into each program and variant."""
    sites: Literal["results", "operands"] = "results"
    """Target of the flip: `results` of instructions, when they are made; `operands` of stores,
    branches, calls and returns, after their comparison."""
    bits: Annotated[int, Field(ge=1, le=2)] = 1
    """Flipped bits of a result."""
    workers: Annotated[int, Field(ge=1, le=64)] = 2
    """Parallel injections."""
    cpu_s: Annotated[int, Field(ge=1, le=600)] = 1
    """CPU time after which a run counts as a hang [s]; at least ten times that of an undisturbed
    run."""
    wall_s: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """Time after which a run without CPU use counts as a hang [s]."""
    memory_mb: Annotated[int, Field(ge=16, le=65536)] = 1024
    """Address space of a run [MB]."""
    output_mb: Annotated[int, Field(ge=1, le=1024)] = 8
    """Largest output of a run [MB]."""
    price_rounds: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Rounds of work or load when speed is measured."""
    price_repeats: Annotated[int, Field(ge=1, le=1000)] = 7
    """Speed runs of each variant, in turn."""

    @model_validator(mode="after")
    def _check_compared_programs(self) -> Self:
        if any(variant.startswith("compared-") for variant in self.variants):
            for program in self.programs:
                if program not in SERVICES or not SERVICES[program].compares:
                    raise ValueError(f"{program} has no copies that can be compared, memcached has")
        return self
