"""[[hosts]] of plan.toml: own servers that the machines of several tiers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from core.config_file import Name, Positive, Problem, Strict, named_twice
from core.errors import MOST
from core.vocabulary import Scheme
from optimizer.plan.solve.hosts import Server

if TYPE_CHECKING:
    from optimizer.plan.inputs.plan_file import Declared

SERVERS_MAX = 64  # of all kinds


class Host(Strict):
    """Servers that are alike: `count` of them, and what each costs that is in use."""

    name: Name
    count: Annotated[int, Field(ge=1, le=SERVERS_MAX)]
    cores: Positive
    memory_mb: Annotated[int, Field(ge=64, le=MOST)]
    usd_per_month: Annotated[float, Field(ge=0, le=MOST)]

    @property
    def servers(self) -> list[Server]:
        server = Server(self.name, self.cores, float(self.memory_mb), self.usd_per_month)
        return [server] * self.count


def problems_of(stated: Declared) -> Iterator[Problem]:
    """Yield errors of the list as a whole."""
    hosts: Sequence[Host] = stated.hosts
    if not hosts:
        return
    if stated.scheme == Scheme.cloud:
        yield Problem(("hosts",), "it with scheme on-prem", "cloud", "Rented machines share none.")
    if stated.domains:
        yield Problem(
            ("hosts",), "it without [[domains]]", "both",
            "Where machines stand is decided by one of them.",
        )  # fmt: skip
    yield from named_twice([host.name for host in hosts], "hosts")
    if (total := sum(host.count for host in hosts)) > SERVERS_MAX:
        yield Problem(("hosts",), f"at most {SERVERS_MAX} servers", str(total), "List fewer.")
