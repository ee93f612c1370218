"""Leases of an arm's settings: renewed while they are wanted, put again where they are gone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from experiments.testbed import held_settings
from experiments.testbed.agents import AgentError
from experiments.testbed.held_settings import LEASE_S, HeldSettings

LRU, LFU = {"MAXMEMORY_POLICY": "allkeys-lru"}, {"MAXMEMORY_POLICY": "allkeys-lfu"}


class _Agent:
    """An agent that records its calls, and holds the last settings until it is restarted."""

    def __init__(self) -> None:
        self.puts: list[Mapping[str, Any]] = []
        self.leases_s: list[float] = []
        self.renewed: list[str] = []
        self.held: str | None = None
        self.is_off = False
        self.was_renewed = threading.Event()

    def set_settings(self, settings: Mapping[str, Any], lease_s: float) -> tuple[bool, str | None]:
        self._answer(None)
        self.puts.append(settings)
        self.leases_s.append(lease_s)
        self.held = f"f{len(self.puts)}" if settings else None
        return True, self.held

    def renew(self, setting: str, lease_s: float) -> None:
        self._answer(404 if setting != self.held else None)
        self.renewed.append(setting)
        self.leases_s.append(lease_s)
        self.was_renewed.set()

    def _answer(self, status: int | None) -> None:
        if self.is_off or status is not None:
            error = AgentError("store-1", expected="success", got="none")
            error.status = status
            raise error


@pytest.fixture
def agent() -> Any:
    return _Agent()


def test_what_was_put_last_is_renewed_with_a_lease_that_agents_take(agent: Any) -> None:
    settings = HeldSettings()
    assert settings.put("store-1", agent, LRU)
    settings.put("store-1", agent, LFU)
    settings.renew()
    settings.close()
    assert agent.renewed == ["f2"]
    assert agent.leases_s == [LEASE_S] * 3


@pytest.mark.parametrize("is_off", [False, True])
def test_what_is_gone_is_put_again_and_told_but_no_answer_is_no_loss(
    agent: Any, is_off: bool
) -> None:
    settings = HeldSettings()
    settings.put("store-1", agent, LRU)
    agent.is_off, agent.held = is_off, "f1" if is_off else None
    settings.renew()
    agent.is_off = False
    settings.renew()
    settings.close()
    expected = ([LRU], ["f1"], set()) if is_off else ([LRU, LRU], ["f2"], {"store-1"})
    assert (agent.puts, agent.renewed, settings.lost) == expected


def test_nothing_is_renewed_of_defaults_or_of_what_was_forgotten(agent: Any) -> None:
    settings, second_agent = HeldSettings(), _Agent()
    settings.put("store-1", agent, LRU)
    settings.put("store-1", agent, {})
    settings.put("store-2", second_agent, LRU)  # type: ignore[arg-type]
    settings.forget("store-2")
    settings.renew()
    settings.close()
    assert (agent.renewed, second_agent.renewed) == ([], [])


def test_a_thread_renews_until_it_is_closed(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_settings, "_RENEW_EVERY_S", 0.001)
    settings = HeldSettings()
    settings.put("store-1", agent, LRU)
    assert agent.was_renewed.wait(60.0)
    settings.close()
    renewed_before = list(agent.renewed)
    agent.was_renewed.clear()
    assert not [
        thread
        for thread in threading.enumerate()
        if thread.name == "settings" and thread.is_alive()
    ]
    assert agent.renewed == renewed_before
