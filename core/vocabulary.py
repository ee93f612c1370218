"""Schemes and mechanisms: the words that files, options and models share.

A member is its text, so a text from a file or a program can be compared with it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from core.errors import InputError


class Scheme(StrEnum):
    """The scheme of a fleet: failed machines are replaced (cloud), or fixed machines (on-prem)."""

    cloud = "cloud"
    on_prem = "on-prem"


class Mechanism(StrEnum):
    """The over-provisioning of a tier: active route anywhere, or passive fail-over."""

    ara = "ara"
    pf = "pf"

    @property
    def words(self) -> str:
        """The name in the glossary's words."""
        return {
            Mechanism.ara: "active route anywhere",
            Mechanism.pf: "passive fail-over",
        }[self]

    @property
    def meaning(self) -> str:
        """The name, and the use of machines beyond those that the load needs."""
        use = {
            Mechanism.ara: "they run and share the load (N+k, active-active)",
            Mechanism.pf: "cold standbys that are started when one fails (active-passive)",
        }[self]
        return f"{self.words}: {use}"


MECHANISMS = tuple(Mechanism)
SchemeText = Annotated[Scheme, Field(strict=False)]  # of a strict model: its text will do
MechanismText = Annotated[Mechanism, Field(strict=False)]


def scheme_of(text: str) -> Scheme:
    """Return the scheme of this name. Raises InputError."""
    try:
        return Scheme(text)
    except ValueError as error:
        raise InputError("scheme", expected="cloud or on-prem", got=repr(text)) from error


def mechanism_of(text: str) -> Mechanism:
    """Return the mechanism of this name. Raises InputError."""
    try:
        return Mechanism(text)
    except ValueError as error:
        raise InputError("mechanism", expected="ara or pf", got=repr(text)) from error
