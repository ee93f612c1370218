"""The start of all tests: nothing of the caller's state, and a seed, to repeat a failure with.

SPARECRAFT_TEST_SEED is a number, `commit` (drawn from the commit's tree: the same content fails or
passes every time) or `chance`, which is the default outside of CI.
"""

from __future__ import annotations

import gc
import os
import re
import secrets
import signal
import subprocess
from collections.abc import MutableMapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from random_tests import drawn

VARIABLE = "SPARECRAFT_TEST_SEED"
_NO_COMMIT = 20261123  # where the files are no git checkout
_SEED = pytest.StashKey[int]()
# Of a caller's terminal, accounts and stacks; they change what commands say, and to whom.
_CALLERS = re.compile(
    "COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR.*|TTY_.*|AWS_.*|SPARECRAFT_KINDS"
    "|TF_WORKSPACE|TF_DATA_DIR|TF_INPUT|TF_LOG.*|TF_VAR_.*|TF_CLI_ARGS.*"
)


def forget_caller(environment: MutableMapping[str, str]) -> None:
    """Take out of an environment what tests must not depend on."""
    for name in [key for key in environment if _CALLERS.fullmatch(key)]:
        del environment[name]


forget_caller(os.environ)  # at once: a console reads its width where it is imported


def seed_from(chosen: str, root: Path) -> int:
    """The seed that a value of SPARECRAFT_TEST_SEED stands for. Raises UsageError."""
    if chosen == "chance":
        return secrets.randbits(64)
    if chosen == "commit":
        return _of_commit(root)
    try:
        return int(chosen)
    except ValueError as error:
        expected = "a number, commit or chance"
        raise pytest.UsageError(f"{VARIABLE}: expected {expected} (got {chosen!r}).") from error


def _of_commit(root: Path) -> int:
    command = ["git", "-C", str(root), "rev-parse", "HEAD^{tree}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(found.stdout[:16], 16) if found.returncode == 0 else _NO_COMMIT


def profile() -> settings:
    """Settings of a random test that states none: 100 examples, or the share that is asked for."""
    slow = [HealthCheck.too_slow]
    return settings(deadline=None, database=None, derandomize=False, suppress_health_check=slow,
                    max_examples=drawn(100))  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """One seed for all random tests, unless --hypothesis-seed states one.

    The profile stands in for the one that Hypothesis takes where CI is set: it draws the same for
    ever. Nothing is kept from one session to the next, and no test has to end, or to draw, in time.
    """
    settings.register_profile("sparecraft", profile())
    settings.load_profile("sparecraft")
    if config.getoption("--hypothesis-seed") is None:
        by_default = "commit" if os.environ.get("CI") else "chance"
        chosen = os.environ.get(VARIABLE) or by_default
        config.option.hypothesis_seed = str(seed_from(chosen, config.rootpath))
    config.stash[_SEED] = int(config.option.hypothesis_seed)
    heed_ctrl_c()


def heed_ctrl_c() -> None:
    """Take Ctrl-C by default: a script's background job ignores it, and so would each program that
    a test starts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """The command that draws the same once more, after a failure."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        seed = terminalreporter.config.stash[_SEED]
        terminalreporter.write_line(f"Random tests repeat with {VARIABLE}={seed} pytest ...")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test bears the mark of its folder under tests/: unit, real or fleet."""
    for item in items:
        inside = item.path.as_posix().rpartition("/tests/")[2]
        kind = inside.split("/")[0]
        if kind in ("unit", "real", "fleet"):
            item.add_marker(kind)
        elif "/tests/" in item.path.relative_to(item.config.rootpath).as_posix():
            at = item.path.relative_to(item.config.rootpath)
            raise pytest.UsageError(f"{at}: a test is in tests/unit, tests/real or tests/fleet.")


def pytest_collection() -> None:
    """Import without garbage collection: nearly all that modules make stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what the imports made out of each later garbage collection."""
    gc.enable()
    gc.freeze()
