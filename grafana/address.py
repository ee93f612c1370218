"""The address of an InfluxDB, with or without user and password: http://USER:PASSWORD@HOST:8086."""

from __future__ import annotations

import re

import httpx


def without_login(url: str) -> str:
    return re.sub("//.*@", "//", url)


def client_of(url: str, timeout_s: float) -> httpx.Client:
    """Return a client that keeps the password out of addresses, errors and log lines.

    Raises httpx.InvalidURL.
    """
    address = httpx.URL(url)
    return httpx.Client(
        base_url=without_login(url),
        auth=(address.username, address.password) if address.userinfo else None,
        timeout=timeout_s,
        trust_env=False,  # a proxy of the environment has no way to a fleet's addresses
    )
