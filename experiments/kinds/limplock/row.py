"""Rows: which part limps, which operations the system gets meanwhile, and the paper's figures.

A row is a file in `rows/`. It is one line of Limplock's Table 1 (Do et al., SoCC 2013) with the
paper's figures, or a row of a system that the paper does not have, made after the most similar one.
The workload is the paper's; a design scales it and states the scale. Machines are named by their
part in a protocol (leader, source, mapper), which is looked up in the running system.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from core.config_file import Positive, Strict, check, read_toml, refusal
from experiments.kinds.limplock.judge.dose import Mechanism
from experiments.kinds.limplock.judge.probes import Needs

FOLDER = Path(__file__).parent / "rows"
Word = Annotated[str, Field(pattern=r"^[a-z][a-z-]*$")]
Count = Annotated[int, Field(ge=1)]
Published = Literal["yes", "no", "unread"]


class Load(Strict):
    """Operations that a client asks for, one after another."""

    operation: Word
    """Name of the operation."""
    count: Count | None = None
    """Number of operations; without it, they go on as long as the row lasts."""
    size_kb: Annotated[float, Field(ge=0)] | None = None
    """Data of each operation [KB]."""
    keys: Count | None = None
    """Number of names (keys), if there are fewer than operations."""
    consistency: Literal["one", "quorum", "all"] | None = None
    """Replicas that have to answer."""
    replicas: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    """Number of replicas before and after."""


class Probe(Strict):
    """An operation that is repeated without end beside the row's own."""

    operation: Word
    """Name of the operation, the same on all nodes."""
    needs: Needs
    """The part of the limping node that it needs."""
    at: Literal["injected", "others"]
    """The nodes to which it is sent."""

    @model_validator(mode="after")
    def _check_needs(self) -> Probe:
        if self.at == "injected" and self.needs == "neither":
            raise refusal("limpware or node at the injected node", got="neither", key="needs")
        return self


class Course(Strict):
    """A rate of the operation over time, from the paper's text."""

    rate_per_s: Positive
    """Operations done [1/s]."""
    from_s: Annotated[float, Field(ge=0)] | None = None
    """Begin of this rate after the fault [s]; None: the text does not say when."""
    until_s: Positive | None = None
    """End of this rate [s]; None: the end of the figure."""
    what: Annotated[str, Field(min_length=1)]
    """The state of the service then."""


class Paper(Strict):
    """The paper's verdict on a row. `unread`: the tick is lost in the copy that was read."""

    base_s: Positive
    """Latency without a fault."""
    operation: Published
    """Operation limplock."""
    node: Published
    """Node limplock."""
    cluster: Published
    """Cluster limplock."""
    slowdown: Positive | None = None
    """The largest slowdown that the text names, or the ratio of two rates that it names."""
    course: list[Course] = Field(default_factory=list)
    """Rates over time, if the text explains the row's figure over time."""
    places: Annotated[list[str], Field(min_length=1)]
    """Places in the paper: sections, or the table and figures by name."""


class Row(Strict):
    """A file in `rows/`."""

    name: Annotated[str, Field(pattern=r"^[A-Z][0-9]+$")]
    """Name in the paper, if the paper has the row."""
    system: Word
    """The system whose protocol it is."""
    protocol: Annotated[str, Field(min_length=1)]
    """The work of the nodes for the operation."""
    limpware: Literal["disk", "nic"]
    """The hardware that limps."""
    injected: Annotated[list[Word], Field(min_length=1)]
    """The part in the protocol of the node that limps; several parts limp one by one, in separate
    runs."""
    injected_role: Word | None = None
    """Role of the machine with that part, if it is not the system's: a role that its tier calls."""
    timeout_factor: Annotated[float, Field(gt=1)] = 50.0
    """Longest wait for an operation as a multiple of its base; then it took at least that long."""
    workload: Load
    """The row's own operation."""
    beside: Load | None = None
    """Other operations at the same time."""
    probes: Annotated[list[Probe], Field(min_length=1)]
    """The probes from which nodes and cluster are judged."""
    mechanism: Mechanism | None = None
    """The resource that operations have to fill before the row can lock up; None: they wait for the
    limping part themselves."""
    paper: Paper | None = None
    """The paper's figures; None: the paper does not have this row."""

    @model_validator(mode="after")
    def _check_probes(self) -> Row:
        if not any(probe.needs == "neither" for probe in self.probes):
            got = "none"
            raise refusal("a probe that needs nothing of the limping node", got=got, key="probes")
        return self


def read_row(path: Path) -> Row:
    """Read one row. Raises InputError with the file, line and key of the fault."""
    source = read_toml(path)
    row = check(source, Row)
    if row.name != path.stem:
        raise source.error("name", expected=f"the file's, {path.stem}", got=row.name)
    return row


@cache
def rows() -> Mapping[str, Row]:
    """Return all rows by name; the files are read once, at the first call."""
    return {path.stem: read_row(path) for path in sorted(FOLDER.glob("*.toml"))}
