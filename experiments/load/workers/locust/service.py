"""A service that somebody else runs, for users of a Locust file.

It is asked by its name, at the address that was resolved before the run, and its certificates are
checked by the plan's rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import gevent
import locust.clients
from locust.clients import HttpSession
from locust.contrib.fasthttp import FastHttpSession

from experiments.load.plan import LoadPlan, PlanTarget
from experiments.load.tls import PlanTls, context_of


def hosts_of(plan: LoadPlan) -> list[str]:
    """Return the URLs that users are given in turn: a service's by its name, a fleet's by
    address.
    """
    urls = [url.rstrip("/") for urls in plan.entries.values() for url in urls]
    if plan.target is None:
        return urls
    return [f"{urlsplit(url).scheme}://{plan.target.authority}" for url in urls]


def resolve(target: PlanTarget) -> None:
    """Give the target's name its address in this process, independently of resolvers."""
    name = urlsplit(f"//{target.authority}").hostname
    resolver = gevent.get_hub().resolver
    ask = resolver.getaddrinfo

    @functools.wraps(ask)
    def known(host: Any, *more: Any, **options: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        return ask(target.address if text == name else host, *more, **options)

    resolver.getaddrinfo = known


def check_certificates(tls: PlanTls) -> None:
    """Both of Locust's clients trust whom the plan trusts, whatever the file says of it.

    Before the file is imported. One context serves all users: to load certificates takes long.
    """
    context = context_of(tls)
    locust.clients._preloaded_ssl_context = context
    told = {"verify": not tls.insecure}
    HttpSession._send_request_safe_mode = _with(HttpSession._send_request_safe_mode, told)  # type: ignore[method-assign]
    # geventhttpclient gives the file of those whom this host trusts, which the plan's replace.
    told_fast = {"insecure": tls.insecure, "ssl_context_factory": lambda **_: context}
    FastHttpSession.__init__ = _with(FastHttpSession.__init__, told_fast)  # type: ignore[method-assign]


def _with(call: Callable[..., Any], told: Mapping[str, Any]) -> Any:
    """Return the same call with these options, whatever it is given."""

    @functools.wraps(call)
    def always(*given: Any, **options: Any) -> Any:
        return call(*given, **{**options, **told})

    return always
