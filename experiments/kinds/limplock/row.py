"""Rows: what is limped, what is asked of the system meanwhile, and what the paper found.

A row is a file in `rows/`: one line of Limplock's Table 1 (Do et al., SoCC 2013), with the paper's
figures, or one of a system that the paper has not, made after its nearest. Its workload is the
paper's; who runs it scales it, and says by how much. Places are parts of a protocol (leader,
source, mapper), found in the running system.
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
    """What is asked for."""
    count: Count | None = None
    """How often; without it, as long as the row lasts."""
    size_kb: Annotated[float, Field(ge=0)] | None = None
    """How much data each has."""
    keys: Count | None = None
    """Over how many names they go, where these are fewer than the operations."""
    consistency: Literal["one", "quorum", "all"] | None = None
    """How many replicas have to answer."""
    replicas: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    """From how many replicas to how many."""


class Probe(Strict):
    """An operation that is asked without end beside the row's own."""

    operation: Word
    """What is asked for; one name for the same thing on all nodes."""
    needs: Needs
    """What of the limping node it needs."""
    at: Literal["injected", "others"]
    """Which nodes are asked."""

    @model_validator(mode="after")
    def _possible(self) -> Probe:
        if self.at == "injected" and self.needs == "neither":
            raise refusal("limpware or node at the injected node", got="neither", key="needs")
        return self


class Course(Strict):
    """A rate of the operation over time, as the paper's text has it."""

    rate_per_s: Positive
    """Operations done [1/s]."""
    from_s: Annotated[float, Field(ge=0)] | None = None
    """Since when after the fault [s]; None: the text does not say when."""
    until_s: Positive | None = None
    """Until when [s]; None: to the end."""
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
    """The largest that the text names, or two rates that it names."""
    course: list[Course] = Field(default_factory=list)
    """How much was done over time, of a row whose figure over time the text explains."""
    places: Annotated[list[str], Field(min_length=1)]
    """Where it says so: sections, or the table and figures by name."""


class Row(Strict):
    """A file in `rows/`."""

    name: Annotated[str, Field(pattern=r"^[A-Z][0-9]+$")]
    """As in the paper, where it has the row."""
    system: Word
    """Whose protocol it is."""
    protocol: Annotated[str, Field(min_length=1)]
    """What the operation makes the nodes do."""
    limpware: Literal["disk", "nic"]
    """What limps."""
    injected: Annotated[list[Word], Field(min_length=1)]
    """The node's part in the protocol; several are limped one by one, in runs of their own."""
    injected_role: Word | None = None
    """Whose machine has that part, where it is not the system's: a role that its tier calls."""
    timeout_factor: Annotated[float, Field(gt=1)] = 50.0
    """How many times its base an operation is waited for; then it took at least that."""
    workload: Load
    """The row's own operation."""
    beside: Load | None = None
    """What else is asked for meanwhile."""
    probes: Annotated[list[Probe], Field(min_length=1)]
    """What verdicts on nodes and cluster rest on."""
    mechanism: Mechanism | None = None
    """The store that operations have to fill before the row can lock up; None: they wait for
    what limps themselves."""
    paper: Paper | None = None
    """None: the paper has not this row."""

    @model_validator(mode="after")
    def _tells_of_others(self) -> Row:
        if not any(probe.needs == "neither" for probe in self.probes):
            got = "none"
            raise refusal("a probe that needs nothing of the limping node", got=got, key="probes")
        return self


def read_row(path: Path) -> Row:
    """One row. Raises InputError with file, line and key of what is wrong."""
    source = read_toml(path)
    row = check(source, Row)
    if row.name != path.stem:
        raise source.error("name", expected=f"the file's, {path.stem}", got=row.name)
    return row


@cache
def rows(folder: Path = FOLDER) -> Mapping[str, Row]:
    """Return all rows by name, as they are when they are first asked for."""
    return {path.stem: read_row(path) for path in sorted(folder.glob("*.toml"))}
