"""Locust as most use it: users who ask, wait for the answer, and ask again (bench/load.py)."""

from __future__ import annotations

from locust import FastHttpUser, task


class Reader(FastHttpUser):
    """One page, without a pause."""

    @task
    def read(self) -> None:
        """The body."""
        self.client.get("/body")
