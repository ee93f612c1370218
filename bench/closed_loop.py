"""Locust in its usual closed loop: users who ask, wait for the answer, and ask again, at once (for
bench/load.py) or at a rate (for bench/stalls.py)."""

from __future__ import annotations

import os

from locust import FastHttpUser, constant_throughput, task


class Reader(FastHttpUser):
    """One page, without a pause."""

    @task
    def read(self) -> None:
        """The body."""
        self.client.get("/body")


class Paced(Reader):
    """As many pages a second as `REQUESTS_PER_USER` says, where answers come in time."""

    wait_time = constant_throughput(float(os.environ.get("REQUESTS_PER_USER", "1")))
