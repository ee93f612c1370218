"""The head of both kinds of book, and their common values."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from core.config_file import Strict, refusal
from core.errors import MOST


def _day(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise refusal("YYYY-MM-DD", got=repr(value)) from error


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Day = Annotated[str, BeforeValidator(_day)]
NotNegative = Annotated[float, Field(ge=0, le=MOST)]


class Head(Strict):
    """The date and the source of the prices."""

    as_of: Day
    source: Text
    currency: Literal["USD"]
