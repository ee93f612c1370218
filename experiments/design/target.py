"""The URL of a service that somebody else runs: allowed hosts and their addresses.

Loopback is always allowed. Every other host must be typed twice, in the URL and in the list of
allowed hosts, so that a typing error sends load to nobody. Its name is resolved once, and all load
goes to that address.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from urllib.parse import SplitResult, urlsplit

from core.config_file import Strict
from core.errors import InputError

SCHEMES = {"http": 80, "https": 443}
# This network's own addresses, and those at which clouds answer a machine's questions on itself.
_NEVER = (ipaddress.ip_network("0.0.0.0/8"), ipaddress.ip_network("fd00:ec2::/32"))
_HOW = "Say it as http://HOST:PORT, an IPv6 address as http://[ADDRESS]:PORT."

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str], Sequence[str]]


class Target(Strict):
    """The service, its name resolved."""

    scheme: str
    """One of SCHEMES."""
    host: str
    """As the URL has it, in small letters and without brackets: a name or an IP address."""
    port: int
    address: str
    """IPv4 or IPv6, to which all of a run's load goes."""

    @property
    def url(self) -> str:
        """The URL with the name."""
        return f"{self.scheme}://{self.authority}/"

    @property
    def entry(self) -> str:
        """The URL with the address."""
        return f"{self.scheme}://{in_url(self.address)}:{self.port}/"

    @property
    def authority(self) -> str:
        """The Host header of requests to it."""
        host = in_url(self.host)
        return host if self.port == SCHEMES[self.scheme] else f"{host}:{self.port}"


def in_url(host: str) -> str:
    """Return a host as URLs have it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def addresses(host: str) -> list[str]:
    """Return all of a name as this host's resolver gives them, those of IPv4 first. Raises OSError
    where there is none.
    """
    found = socket.getaddrinfo(host, None, socket.AF_UNSPEC, socket.SOCK_STREAM)
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def resolved(place: str, url: str, allowed: Collection[str], lookup: Lookup = addresses) -> Target:
    """Return the service at `url`. Raises InputError at `place` for a URL that is none, a host that
    is not allowed, and one without an address that load may go to.
    """
    parts = _parts(place, url)
    host = str(parts.hostname)
    address = _address(place, host, lookup)
    if not address.is_loopback and host not in {one.lower().strip("[]") for one in allowed}:
        raise InputError(
            place,
            expected="a host of this machine, or one that is allowed by its name",
            got=f"{host}, at {address}",
            hint=f"If load may go there, repeat it: --allow-host {host}, or allow_hosts = "
            f'["{host}"] under [load].',
        )
    port = parts.port or SCHEMES[parts.scheme]
    return Target(scheme=parts.scheme, host=host, port=port, address=str(address))


def _parts(place: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise InputError(place, expected="a URL", got=f"{url} ({error})", hint=_HOW) from error
    if parts.scheme not in SCHEMES or not host or port == 0:
        expected = f"{' or '.join(SCHEMES)}://HOST, with or without :PORT"
        raise InputError(place, expected=expected, got=url, hint=_HOW)
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise InputError(
            place,
            expected="a URL without path, query and account: the operations have these",
            got=url.replace(parts.netloc, parts.netloc.rpartition("@")[2]),
            hint=_HOW,
        )
    return parts


def _address(place: str, host: str, lookup: Lookup) -> Address:
    try:
        found = [ipaddress.ip_address(one) for one in lookup(host)]
    except (OSError, ValueError, UnicodeError) as error:
        raise InputError(
            place,
            expected="a host with an address",
            got=f"{host}: {getattr(error, 'strerror', None) or error}",
            hint="Correct the name, or give the address itself.",
        ) from error
    for one in found:
        if _is_of_no_network(one):
            raise InputError(
                place,
                expected="a host of the network",
                got=f"{host}, at {one}: link-local, multicast or reserved",
                hint="No load is sent there.",
            )
    return found[0]


def _is_of_no_network(one: Address) -> bool:
    """True of what is no single host's; `::/8`, which is reserved, also has IPv4 within IPv6."""
    if one.is_loopback:
        return False
    never = any(one in network for network in _NEVER)
    return one.is_link_local or one.is_multicast or one.is_reserved or never
