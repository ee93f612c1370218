"""Hosts that `--target` allows, and the single resolution of a name."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from core.errors import InputError
from experiments.design.target import Target, addresses, resolve


class Names:
    """A resolver that knows these, and counts how often it was asked."""

    def __init__(self, **hosts: str) -> None:
        self.known = {name.replace("_", "."): text.split() for name, text in hosts.items()}
        self.asked = 0

    def __call__(self, host: str) -> Sequence[str]:
        self.asked += 1
        if host in self.known:
            return self.known[host]
        if host.replace(".", "").isdigit() or ":" in host:
            return [host]
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


NAMES = Names(localhost="127.0.0.1", shop_test="10.1.2.3", two_test="10.1.2.4 10.1.2.5",
              inner_test="127.0.0.1", meta_test="10.1.2.3 169.254.169.254",
              six_test="2001:db8::6",
              linked_test="2001:db8::8 fe80::8")  # fmt: skip


def refused(url: str, *allowed: str) -> InputError:
    with pytest.raises(InputError) as error:
        resolve(url, allowed, NAMES)
    return error.value


def test_a_name_of_this_machine_may_be_asked_as_it_is() -> None:
    for url in ("http://localhost:81", "http://127.0.0.1:81/", "http://inner.test:81"):
        assert resolve(url, (), NAMES).entry == "http://127.0.0.1:81/"


def test_any_other_host_has_to_be_typed_twice() -> None:
    for host, address in (
        ("shop.test", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3"),
        ("8.8.8.8", "8.8.8.8"),
    ):
        assert host in refused(f"http://{host}/").got
        assert host in refused(f"http://{host}/", "other.test").got
        target = resolve(f"http://{host.upper()}", (host,), NAMES)
        assert (target.host, target.address, target.port) == (host, address, 80)


def test_a_name_is_resolved_once_and_load_goes_to_its_first_address() -> None:
    names = Names(two_test="10.1.2.4 10.1.2.5")
    target = resolve("http://two.test:8080", ("two.test",), names)
    assert names.asked == 1
    assert target == Target(scheme="http", host="two.test", port=8080, address="10.1.2.4")
    assert (target.entry, target.authority) == ("http://10.1.2.4:8080/", "two.test:8080")


def test_an_ipv6_address_stands_in_brackets() -> None:
    target = resolve("http://[::1]:8080/", (), NAMES)
    assert (target.host, target.address) == ("::1", "::1")
    assert (target.entry, target.authority) == ("http://[::1]:8080/", "[::1]:8080")
    for allowed in ("2001:DB8::5", "[2001:db8::5]"):
        target = resolve("https://[2001:db8::5]", (allowed,), NAMES)
        assert (target.url, target.port) == ("https://[2001:db8::5]/", 443)
    assert refused("http://[2001:db8::5]/").place == "--target"
    target = resolve("http://six.test", ("six.test",), NAMES)
    assert (target.entry, target.authority) == ("http://[2001:db8::6]:80/", "six.test")


def test_addresses_of_this_host_s_resolver_begin_with_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(socket.AF_INET6, "2001:db8::7"), (socket.AF_INET, "10.1.2.6")] * 2
    entries = [(family, 1, 6, "", (address, 0)) for family, address in answers]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: entries)
    assert addresses("both.test") == ["10.1.2.6", "2001:db8::7"]


def test_an_unknown_host_is_named() -> None:
    assert "nowhere.test" in refused("http://nowhere.test", "nowhere.test").got


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254", "224.0.0.1", "255.255.255.255", "0.0.0.0", "meta.test",
        "[fe80::1]", "[ff02::1]", "[::]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]", "linked.test",
    ],
)  # fmt: skip
def test_a_host_of_no_network_is_refused_though_it_is_allowed(host: str) -> None:
    assert host.strip("[]") in refused(f"http://{host}/", host).got


@pytest.mark.parametrize(
    "url",
    ["shop.test", "ftp://shop.test", "http://", "http://shop.test:0", "http://shop.test:99999",
     "http://shop.test/path", "http://shop.test/?query", "http://::1/", "http://["],
)  # fmt: skip
def test_what_is_no_url_of_a_host_is_refused(url: str) -> None:
    assert refused(url, "shop.test").place == "--target"


def test_an_account_in_the_url_is_refused_and_not_shown() -> None:
    assert "secret" not in str(refused("http://ann:secret@shop.test/", "shop.test"))
