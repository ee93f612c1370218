"""Commands on a machine by AWS's Systems Manager, without an open port.

Shell(aws, "i-1").ask(["look", "20261126T1200"])     # the answer of `remote_runner.py`
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused

PROGRAM = (
    "/opt/sparecraft/venv/bin/python",
    "-P",
    "-m",
    "experiments.testbed.platforms.ec2.remote_runner",
)
DOCUMENT = "AWS-RunShellScript"
_GOES_ON = ("Pending", "InProgress", "Delayed", "Cancelling")
_POLL_S = 0.5
_DELIVERY_S = 60  # a machine that does not take a command in this time is asked again


class Failed(EnvironmentMissing):
    """The machine took the command, and says that it failed."""


class Shell:
    """The first load machine, as far as it is asked from elsewhere."""

    def __init__(self, aws: Aws, instance: str) -> None:
        self._aws = aws
        self._instance = instance

    def ask(self, words: Sequence[str], *, timeout_s: float = 60.0) -> JsonObject:
        """Return the answer of `remote_runner.py` to `words`. Raises Failed if it says so,
        EnvironmentMissing where there is no answer within `timeout_s`, or none of AWS.
        """
        command = shlex.join([*PROGRAM, *words])
        sent = self._aws.call(
            "ssm",
            "send_command",
            InstanceIds=[self._instance],
            DocumentName=DOCUMENT,
            TimeoutSeconds=_DELIVERY_S,
            Parameters={"commands": [command], "executionTimeout": [f"{timeout_s:.0f}"]},
        )
        done = self._waited_for(sent["Command"]["CommandId"], timeout_s + _DELIVERY_S)
        if done["Status"] == "Success":
            try:
                return dict(json.loads(done["StandardOutputContent"]))
            except ValueError:
                pass
        said = done["StandardErrorContent"] or done["StandardOutputContent"] or "nothing"
        kind = Failed if done["Status"] == "Failed" else EnvironmentMissing
        raise self._failure(words[0], f"{done['Status']}: {said.strip()[-2000:]}", kind)

    def await_answer(self, words: Sequence[str], timeout_s: float) -> JsonObject:
        """Return the same, from a machine that may still be installing what answers."""
        until = time.monotonic() + timeout_s
        while True:
            try:
                return self.ask(words)
            except AwsRefused as error:
                # Systems Manager does not know a machine before its agent has called.
                if error.code != "InvalidInstanceId" or time.monotonic() > until:
                    raise
            except EnvironmentMissing:
                if time.monotonic() > until:
                    raise
            time.sleep(min(5.0, timeout_s))

    def _waited_for(self, command: str, timeout_s: float) -> JsonObject:
        until = time.monotonic() + timeout_s
        while True:
            time.sleep(_POLL_S)
            try:
                done = self._aws.call(
                    "ssm", "get_command_invocation", CommandId=command, InstanceId=self._instance
                )
                if done["Status"] not in _GOES_ON:
                    return dict(done)
            except AwsRefused as error:
                if error.code != "InvocationDoesNotExist":  # a moment after it was sent
                    raise
            if time.monotonic() > until:
                raise self._failure(command, f"no end within {timeout_s:.0f} s")

    def _failure(
        self, what: str, got: str, kind: type[EnvironmentMissing] = EnvironmentMissing
    ) -> EnvironmentMissing:
        return kind(
            f"load machine {self._instance}, region {self._aws.region}, {what}",
            expected="an answer",
            got=got,
            hint="`aws ec2 get-console-output --latest --instance-id "
            f"{self._instance}` shows whether the machine is made; then call again.",
        )
