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
# Addresses of this network, and those of the metadata services of clouds.
_NEVER = (ipaddress.ip_network("0.0.0.0/8"), ipaddress.ip_network("fd00:ec2::/32"))
_PLACE = "--target"
_HINT = "Say it as http://HOST:PORT, an IPv6 address as http://[ADDRESS]:PORT."

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
    """Return a host in the form that URLs need: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def addresses(host: str) -> list[str]:
    """Return all addresses of a name by this host's resolver, IPv4 first. Raises OSError if there
    is none.
    """
    records = socket.getaddrinfo(host, None, socket.AF_UNSPEC, socket.SOCK_STREAM)
    records.sort(key=lambda record: record[0] != socket.AF_INET)
    return list(dict.fromkeys(str(record[4][0]) for record in records))


def resolve(url: str, allowed: Collection[str], lookup: Lookup = addresses) -> Target:
    """Return the service at `url`. Raises InputError for an invalid URL, for a host that is not
    allowed, and for a host without an address to which load may go.
    """
    parts = _parse(url)
    host = str(parts.hostname)
    address = _find_address(host, lookup)
    if not address.is_loopback and host not in {name.lower().strip("[]") for name in allowed}:
        raise InputError(
            _PLACE,
            expected="a host of this machine, or one that is allowed by its name",
            got=f"{host}, at {address}",
            hint=f"If load may go there, repeat it: --allow-host {host}, or allow_hosts = "
            f'["{host}"] under [load].',
        )
    port = parts.port or SCHEMES[parts.scheme]
    return Target(scheme=parts.scheme, host=host, port=port, address=str(address))


def _parse(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise InputError(_PLACE, expected="a URL", got=f"{url} ({error})", hint=_HINT) from error
    if parts.scheme not in SCHEMES or not host or port == 0:
        expected = f"{' or '.join(SCHEMES)}://HOST, with or without :PORT"
        raise InputError(_PLACE, expected=expected, got=url, hint=_HINT)
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise InputError(
            _PLACE,
            expected="a URL without path, query and account: the operations have these",
            got=url.replace(parts.netloc, parts.netloc.rpartition("@")[2]),
            hint=_HINT,
        )
    return parts


def _find_address(host: str, lookup: Lookup) -> Address:
    try:
        candidates = [ipaddress.ip_address(text) for text in lookup(host)]
    except (OSError, ValueError, UnicodeError) as error:
        raise InputError(
            _PLACE,
            expected="a host with an address",
            got=f"{host}: {getattr(error, 'strerror', None) or error}",
            hint="Correct the name, or give the address itself.",
        ) from error
    for address in candidates:
        if _is_no_host(address):
            raise InputError(
                _PLACE,
                expected="a host of the network",
                got=f"{host}, at {address}: link-local, multicast or reserved",
                hint="No load is sent there.",
            )
    return candidates[0]


def _is_no_host(address: Address) -> bool:
    """True for an address that is no single host's; the reserved `::/8` includes IPv4 in IPv6."""
    if address.is_loopback:
        return False
    is_excluded = any(address in network for network in _NEVER)
    return address.is_link_local or address.is_multicast or address.is_reserved or is_excluded
