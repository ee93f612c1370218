"""A guard that restricts requests of a Locust file to the fleet of the plan.

Locust's clients, `requests`, `urllib` and plain sockets all use Python's socket calls, which it
reports to an audit hook; an exception of the hook is raised by the call. So one place refuses all
other hosts before a packet leaves, and counts them by name. A library in C with its own sockets is
not detected, nor is a program that the file starts.
"""

from __future__ import annotations

import socket
import sys
from collections import Counter
from collections.abc import Collection
from typing import Any

_HOSTS_MAX = 100  # hosts that are counted by name


class OtherHost(ConnectionRefusedError):
    """The file asks a host that is not of the fleet."""


class TargetGuard:
    """Refuses every connection but those to `allowed`, (IP address, port)."""

    def __init__(self, allowed: Collection[tuple[str, int]] = ()) -> None:
        self.requests: Counter[str] = Counter()
        self._allowed = set(allowed)
        self._addresses = {address for address, _ in allowed}

    def watch(self) -> None:
        """Begin to watch, for the rest of the process: an audit hook cannot be removed."""
        sys.addaudithook(self._hook)

    def describe(self) -> str:
        """Return the refused hosts and how often each was asked; empty if none was."""
        return ", ".join(
            f"{host} ({count} time{'s' * (count != 1)})"
            for host, count in self.requests.most_common(5)
        )

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith("socket."):
            return
        if event == "socket.getaddrinfo":
            self._check_name(arguments[0], arguments[1])
        elif event == "socket.gethostbyname":
            self._check_name(arguments[0], None)
        elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            self._check_address(*arguments[:2])

    def _check_name(self, host: Any, port: Any) -> None:
        name = host.decode(errors="replace") if isinstance(host, bytes) else host
        if name is not None and name not in self._addresses:
            self._refuse(f"{name}:{port}" if port else str(name))

    def _check_address(self, connection: socket.socket, address: Any) -> None:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or not address:
            return
        if tuple(address[:2]) not in self._allowed:
            self._refuse(f"{address[0]}:{address[1]}")

    def _refuse(self, host: str) -> None:
        if host in self.requests or len(self.requests) < _HOSTS_MAX:
            self.requests[host] += 1
        raise OtherHost(f"{host} is no host of this design's fleet")
