"""Small charts in columns, without the copies of each of them that Altair's own `concat` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt


@dataclass(frozen=True)
class Grid:
    """Charts beside and below each other; `properties` are those of Vega-Lite's `concat`."""

    charts: Sequence[Any]
    properties: Mapping[str, Any]

    def to_dict(self, *, validate: bool) -> dict[str, Any]:
        """Return the specification, as `to_dict` of an Altair chart does."""
        datasets: dict[str, Any] = {}  # to which each chart adds its rows
        context = {"top_level": False, "datasets": datasets}
        charts = [chart.to_dict(validate=validate, context=context) for chart in self.charts]
        schema = {"$schema": alt.SCHEMA_URL}
        return {**schema, **self.properties, "concat": charts, "datasets": datasets}
