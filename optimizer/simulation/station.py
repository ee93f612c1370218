"""A plan's tier, asked of the simulator: a question of `optimizer.latency.simulated` as a scenario.

Work is gamma with the measured squared coefficient of variation, the copies of a request have their
own; neighbours come as a Poisson process and are there for the stated share of the time:
gap = -run / ln(1 - share). TAD has 2 tokens a server, or 2 a core: it
sends to the server that was fast last until its tokens are out, so more would queue there.
"""

from __future__ import annotations

import json
import math
from typing import Any

from optimizer.simulation.program import percentile_s, simulate

_LASTING_S = 1e9
_CV2_LEAST = 1e-4
_TOKENS = 2


def answer(question: str) -> str:
    """The simulator's answer, JSON for JSON; `optimizer.latency.Simulated(answer)` is a source."""
    asked = json.loads(question)
    report = simulate(json.dumps(scenario(asked)), threads=1)["reports"][0]
    latency = report["latency"]
    return json.dumps(
        {
            "mean_s": latency["mean_s"],
            "variance_s2": latency["variance_s2"],
            "p95_s": percentile_s(latency, 95.0),
            "p99_s": percentile_s(latency, 99.0),
            "samples": latency["samples"],
            "unstable": report["stopped"] != "done",
            "schema": asked["schema"],
        }
    )


def scenario(asked: dict[str, Any]) -> dict[str, Any]:
    """The scenario of a question's fields."""
    tier: dict[str, Any] = {
        "name": asked["tier"] or "tier",
        "servers": asked["servers"] - asked["down"],
        "cores": asked["cores"],
        "work": {
            "kind": "gamma",
            "mean_s": asked["processing_s"],
            "cv2": max(asked["cv2"], _CV2_LEAST),
        },
        "policy": asked["policy"],
        "replicas": asked["replicas"],
        "tokens": max(_TOKENS, math.ceil(_TOKENS * asked["cores"])),
        "faults": [
            {
                "kind": "limp",
                "server": i,
                "at_s": 0,
                "for_s": _LASTING_S,
                "speed": asked["limp_speed"],
            }
            for i in range(asked["limping"])
        ],
    }
    if 0 < asked["interference_share"] < 1 and asked["run_s"] > 0 and asked["gamma"] < 1:
        tier["interference"] = {
            "gap_s": -asked["run_s"] / math.log1p(-asked["interference_share"]),
            "run_s": asked["run_s"],
            "speed": asked["gamma"],
        }
    return {
        "seed": asked["seed"],
        "arrivals": {"kind": "poisson", "rate_per_s": asked["request_per_s"]},
        "requests": max(asked["requests"], 20),
        "in_flight_max": max(10_000, 100 * asked["servers"]),
        "tiers": [tier],
    }
