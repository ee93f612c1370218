"""A request over HTTP for a load worker: its parts, and the checks of its answer.

`operations.py` makes it from `[[load.operations]]`; a `workload.py` may make it too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
READS = ("GET", "HEAD", "OPTIONS")  # methods that arbiters may copy
Encoding = Literal["plain", "path", "json", "form"]
JsonPath = tuple[str | int, ...]  # keys of objects, places of lists
Scalar = str | int | float | bool


@dataclass(frozen=True)
class Part:
    """A piece of a path, a header or a body.

    Either bytes, each a character from 0 to 255 of `text`; or the value of the arrival that is
    named `value`, in the `encoding` of its place.
    """

    text: str = ""
    value: str = ""
    encoding: Encoding = "plain"


@dataclass(frozen=True)
class AnswerCheck:
    """A condition on an answer, with the fields of `operations.Check` that have a value. `equals`
    and `contains` refer to the value at `json_path` or `header`.
    """

    text: str | None = None
    json_path: JsonPath | None = None
    header: str | None = None
    equals: Scalar | None = None
    contains: str | None = None
    bytes_min: int | None = None
    bytes_max: int | None = None


@dataclass(frozen=True)
class TakenValue:
    """A value that later steps of a session use, and its place in the answer."""

    name: str
    json_path: JsonPath | None = None
    header: str | None = None


@dataclass(frozen=True)
class HttpRequest:
    """One request, and the answers that are good.

    path: of visible ASCII; body: None if there is none; status: ranges, both ends included.
    """

    method: Method
    path: tuple[Part, ...]
    headers: tuple[tuple[str, tuple[Part, ...]], ...] = ()
    body: tuple[Part, ...] | None = None
    status: tuple[tuple[int, int], ...] = ((200, 299),)
    checks: tuple[AnswerCheck, ...] = ()
    take: tuple[TakenValue, ...] = ()

    @property
    def values(self) -> frozenset[str]:
        """Names of the values that the request needs."""
        parts = [
            *self.path,
            *(self.body or ()),
            *(part for _, value in self.headers for part in value),
        ]
        return frozenset(part.value for part in parts if part.value)

    @property
    def only_reads(self) -> bool:
        """True for a request that arbiters may copy."""
        return self.method in READS

    def closing(self) -> HttpRequest:
        """Return the same request, after which the server closes the connection."""
        headers = tuple(header for header in self.headers if header[0].lower() != "connection")
        return replace(self, headers=(*headers, ("Connection", (Part("close"),))))
