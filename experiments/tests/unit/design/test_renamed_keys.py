"""A key that has another name now is refused with that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.config_file import ConfigFile, Strict, check
from core.errors import InputError
from experiments.design.experiment import Fault, Repeat
from experiments.design.slo import Slo
from experiments.kinds.limplock.section import LimplockSection


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [(Slo, "set", "preregistered"), (Fault, "again", "repeat"), (Repeat, "law", "distribution"),
     (LimplockSection, "wait_max", "timeout_factor"),
     (LimplockSection, "window_least_s", "window_s_min"),
     (LimplockSection, "rehearse", "trial_run")],
)  # fmt: skip
def test_an_old_key_is_refused_with_its_new_name(model: type[Strict], old: str, new: str) -> None:
    with pytest.raises(InputError) as refused:
        check(ConfigFile(Path("experiment.toml"), {old: 1}), model)
    assert old in refused.value.place
    assert new in refused.value.hint


def test_an_unknown_key_that_never_was_one_has_no_new_name() -> None:
    with pytest.raises(InputError) as refused:
        check(ConfigFile(Path("experiment.toml"), {"sett": 1}), Slo)
    assert "preregistered" not in refused.value.hint
