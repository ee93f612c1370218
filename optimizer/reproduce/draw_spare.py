"""sPARE's Eq. 1, 2 and 3 and its capacities, as curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from core.chart_style import LIMIT, Charts, Rows, colours, data
from optimizer.replication import (
    collision_probability,
    lookup_probability,
    round_robin_capacity_per_s,
    tad_capacity_per_s,
)
from optimizer.reproduce.published import published
from optimizer.reproduce.replicas import FAST, THREE_TIERS, interference_share

_PANEL = {"width": 270, "height": 260}
_TICKS = list(range(1, 13))


def charts() -> Charts:
    """Return the figures by file name."""
    return {
        "spare-eq1-collision": equation_1(),
        "spare-eq2-three-tiers": equation_2(),
        "spare-eq3-lookups": equation_3(),
        "spare-capacity": capacity(),
    }


def equation_1() -> Any:
    """Collision probability in tier 2 against r2, a curve for each r1, for three tier sizes."""
    panels = []
    for servers, tier_note in ((12, "MediaWiki's databases"), (36, "as many as its web servers"),
                          (100, "")):  # fmt: skip
        rows = [
            {"x": r2, "y": collision_probability(servers, r1, r2), "series": f"r1 = {r1}"}
            for r1 in (2, 3, 4, 5)
            for r2 in range(1, 13)
        ]
        title = f"{servers} servers" + (f": {tier_note}" if tier_note else "")
        chart = _curves(rows, "r2, replicas in tier 2", "P(collision)", ticks=_TICKS, limit=True)
        if servers == published("spare")["mediawiki"]["db"]:
            chart += _published_pairs(servers)
        panels.append(chart.properties(**_PANEL, title=title))
    return alt.hconcat(*panels).properties(
        title=alt.Title(
            "Two copies of a page's query meet on a server of tier 2",
            subtitle="sPARE Eq. 1; 0 for r1 = 1. Dashed: the paper's limit of 0.5; rings: "
            "the pairs that its Table 4 reports under that limit",
        )
    )


def equation_2() -> Any:
    """Collision probability in tier 3 against r3, a curve for each number of copies above."""
    panels = []
    for servers in (12, 36):
        copies = sorted({r1 * r2 for r1, r2 in THREE_TIERS})
        rows = [
            {
                "x": r3,
                "y": collision_probability(servers, a, r3),
                "series": f"{a} copies from above",
            }
            for a in copies
            for r3 in range(1, 13)
        ]
        chart = _curves(rows, "r3, replicas in tier 3", "P(collision)", ticks=_TICKS, limit=True)
        panels.append(chart.properties(**_PANEL, title=f"{servers} servers"))
    return alt.hconcat(*panels).properties(
        title=alt.Title(
            "Three tiers: what counts is the number of copies from above",
            subtitle="sPARE Eq. 2 with a = r1 r2; dashed: the paper's limit of 0.5",
        )
    )


def equation_3() -> Any:
    """Probability that a fast server is among m look-ups."""
    panels = []
    for servers in (12, 36):
        rows = [
            {
                "x": m,
                "y": lookup_probability(fast * servers // 12, servers - fast * servers // 12, m),
                "series": f"{100 * fast / 12:.0f} % fast",
            }
            for fast in FAST
            for m in range(1, servers + 1)
        ]
        ticks = _TICKS if servers == 12 else [1, *range(6, servers + 1, 6)]
        chart = _curves(rows, "m, tokens looked at", "P(a fast server among them)", ticks=ticks)
        panels.append(chart.properties(**_PANEL, title=f"{servers} servers"))
    return alt.hconcat(*panels).properties(
        title=alt.Title("Looking at more tokens finds a fast server", subtitle="sPARE Eq. 3")
    )


def capacity() -> Any:
    """Return the load that a tier sustains under interference, TAD against round-robin."""
    shares = {0.1: "", interference_share(): " (as in the paper)", 0.5: ""}
    gammas = [g / 20 for g in range(1, 21)]
    rows = [
        {
            "x": gamma,
            "y": tad_capacity_per_s(1, 1.0, share, gamma),
            "series": f"TAD, f = {100 * share:.0f} %{note}",
        }
        for share, note in shares.items()
        for gamma in gammas
    ]
    rows += [
        {"x": g, "y": round_robin_capacity_per_s(1, 1.0, 0.5, g), "series": "round-robin, any f"}
        for g in gammas
    ]
    ticks = [g / 10 for g in range(11)]
    x_title = "gamma, speed left during interference (share of s)"
    chart = _curves(rows, x_title, "rate that is sustained (share of M s)", ticks=ticks)
    return chart.properties(
        width=420,
        height=300,
        title=alt.Title(
            "What a disturbed tier sustains",
            subtitle="sPARE section 4.2; f is the share of time that a server is disturbed",
        ),
    )


def _published_pairs(servers: int) -> Any:
    pairs = published("spare")["mediawiki"]["found"]
    rows = [{"x": b, "y": collision_probability(servers, a, b)} for a, b in pairs if a > 1]
    rings = alt.Chart(data(rows)).mark_point(size=130, strokeWidth=2, color=LIMIT)
    return rings.encode(x=alt.X("x:Q"), y=alt.Y("y:Q"))


def _curves(
    rows: Rows,
    x_title: str,
    y_title: str,
    *,
    ticks: Sequence[float],
    limit: bool = False,
) -> Any:
    names = list(dict.fromkeys(row["series"] for row in rows))
    base = alt.Chart(data(rows)).encode(
        x=alt.X(
            "x:Q",
            scale=alt.Scale(domain=[ticks[0], ticks[-1]], nice=False),
            axis=alt.Axis(title=x_title, values=list(ticks), format="~g"),
        ),
        y=alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(title=y_title)),
        color=alt.Color("series:N", scale=colours(names), legend=alt.Legend(title=None)),
    )
    layers = [base.mark_line(strokeWidth=2), base.mark_point(size=22, filled=True, opacity=1)]
    if limit:
        collision_max = published("spare")["mediawiki"]["collision_max"]
        rule = alt.Chart(data([{"y": collision_max}]))
        layers.insert(0, rule.mark_rule(color=LIMIT, strokeDash=[5, 4]).encode(y=alt.Y("y:Q")))
    return alt.layer(*layers)
