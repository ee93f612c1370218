"""Locust in its usual closed loop: each user sends a request, waits for the answer, and repeats.

Users repeat at once (for bench/load.py) or at a rate (for bench/stalls.py).
"""

from __future__ import annotations

import os

from locust import FastHttpUser, constant_throughput, task


class Reader(FastHttpUser):
    """A user that asks for one page without a pause."""

    @task
    def read(self) -> None:
        self.client.get("/body")


class Paced(Reader):
    """A user that asks `REQUESTS_PER_USER` pages a second, if answers come in time."""

    wait_time = constant_throughput(float(os.environ.get("REQUESTS_PER_USER", "1")))
