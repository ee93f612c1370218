"""Operations on machines of EC2: stop, start, reboot, replace, read the console.

A machine is found by its tags, the newest one alive, because in the scheme `cloud` auto-scaling
groups make instances that no state contains.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.ec2 import resources
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused, answering
from experiments.testbed.platforms.ec2.resources import TaggedResource
from experiments.testbed.platforms.terraform import Progress

_ON = ("pending", "running")
_OFF_TIMEOUT_S = 600.0  # a stop with force takes up to minutes
_POLL_S = 5.0


class Ec2Machines:
    """The machines of one experiment in one region: what a platform on EC2 does to them."""

    name = "ec2"
    # The agent stops the role's processes; its own and the kernel's go on.
    through_agent: Mapping[str, str] = {"machine.freeze": "process.hang"}
    is_attached = False
    reachable = False  # but from within its network
    on_this_host = False
    ready_timeout_s = 900.0  # a machine installs its role's packages when it starts first

    def __init__(self, experiment: str, aws: Aws) -> None:
        self.experiment = experiment
        self.aws = aws

    def inject(self, kind: str, machine: str) -> None:
        """A fault that no agent can inject into its own machine."""
        {"machine.crash": self._cut_off, "machine.reboot": self._reboot}[kind](self._one(machine))

    def revert(self, kind: str, machine: str) -> None:
        """Undo `inject`; idempotent."""
        if kind in ("machine.crash", "machine.reboot"):
            self.start(machine)

    def running(self, machine: str) -> bool:
        """True if the machine's power is on."""
        found = self._newest(machine)
        return found is not None and found.state in _ON

    def start(self, machine: str) -> None:
        """Power on, where the machine is off. A group makes its machine anew by itself."""
        if self._newest(machine) is None and self._has_group(machine):
            return
        one = self._one(machine)
        if one.state in _ON or one.group:
            return
        if one.state == "stopping":
            self._await(one, "instance_stopped")  # EC2 refuses to start it before
        self.aws.call("ec2", "start_instances", InstanceIds=[one.id])

    def _cut_off(self, one: TaggedResource) -> None:
        """Power loss as near as EC2 has it: a stop that does not wait for the operating system. A
        spot machine of one request cannot be stopped: it ends, and its group makes another."""
        if one.spot:
            self._give_up(one)
            return
        self.aws.call("ec2", "stop_instances", InstanceIds=[one.id], Force=True)

    def _reboot(self, one: TaggedResource) -> None:
        """Ask for a restart; EC2 forces it where the operating system does not obey in minutes."""
        self.aws.call("ec2", "reboot_instances", InstanceIds=[one.id])

    def stop(self, machine: str) -> None:
        """Power off at once, where it is on; a group is told to replace its machine without
        waiting for its own check."""
        one = self._newest(machine)
        if one is None or one.state not in _ON:
            return
        self._cut_off(one)
        if one.group and not one.spot:
            self._give_up(one)

    def replace(self, machine: str, progress: Progress) -> None:
        """Have a machine that is off made anew by its group. One that is on is the new one: a
        fence has told the group already. Raises EnvironmentMissing for one without a group."""
        one = self._newest(machine)
        if one is None or one.state in _ON:
            return
        if not one.group:
            raise EnvironmentMissing(
                f"machine {machine} of {self.experiment}, region {self.aws.region}",
                expected="an instance of an auto-scaling group, which replaces it",
                got=f"{one.id}, which belongs to none",
                hint="Only fleets of the scheme cloud replace machines; on-prem repairs them.",
            )
        self._give_up(one)
        progress(f"{machine}: its group makes a new instance")

    def _give_up(self, one: TaggedResource) -> None:
        self.aws.call(
            "autoscaling",
            "terminate_instance_in_auto_scaling_group",
            InstanceId=one.id,
            ShouldDecrementDesiredCapacity=False,
        )

    def _has_group(self, machine: str) -> bool:
        """True if a group makes the machine anew, now that no instance of it is alive."""
        return bool(
            self.aws.pages(
                "autoscaling",
                "describe_auto_scaling_groups",
                "AutoScalingGroups",
                AutoScalingGroupNames=[f"sc-{self.experiment}-{machine}"],
            )
        )

    def runner(self) -> str:
        """Return the id of the first load machine, or in brackets that there is none."""
        found = self._load_machines()
        return found[min(found)] if found else "(no load machine)"

    def load_helpers(self) -> int:
        """Return the load machines but the first, which is the runner."""
        return max(0, len(self._load_machines()) - 1)

    def cpu_s(self) -> Mapping[str, float]:
        """Return nothing: the machines are on other hosts."""
        return {}

    def _load_machines(self) -> dict[str, str]:
        """Return the ids by name."""
        return {
            one.tags.get(resources.MACHINE, ""): one.id
            for one in reversed(resources.instances(self.aws, self.experiment))
            if one.tags.get("sparecraft:role") == "load"
        }

    def await_up(self, machines: Collection[str], timeout_s: float) -> None:
        """Wait until EC2's own checks of each machine have passed.

        Raises EnvironmentMissing after `timeout_s`, with the output of the first of them.
        """
        deadline = time.monotonic() + timeout_s
        while waiting := self._not_up(machines):
            if time.monotonic() > deadline:
                name, seen = next(iter(waiting.items()))
                others = f" (and {len(waiting) - 1} others)" if len(waiting) > 1 else ""
                raise EnvironmentMissing(
                    f"machine {name}{others}",
                    expected=f"EC2's checks to pass within {timeout_s:.0f} s",
                    got=f"{seen}; it printed: {self.machine_logs(name)}",
                    hint="The fleet stays up, to look into, until its time to live is over; "
                    f"`sparecraft down {self.experiment} --platform ec2` removes it.",
                )
            time.sleep(min(_POLL_S, timeout_s))

    def await_off(self, machines: Collection[str], timeout_s: float) -> None:
        """Wait until each standby has stopped itself, which it does after its creation.

        Raises EnvironmentMissing after `timeout_s`, with the output of the first of them.
        """
        deadline = time.monotonic() + timeout_s
        while waiting := [name for name in machines if self._one(name).state != "stopped"]:
            if time.monotonic() > deadline:
                raise EnvironmentMissing(
                    f"standby {waiting[0]}",
                    expected=f"it to be made, and to stop itself, within {timeout_s:.0f} s",
                    got=f"{self._one(waiting[0]).state}; {self.machine_logs(waiting[0])}",
                    hint="The fleet stays up, to look into, until its time to live is over; "
                    f"`sparecraft down {self.experiment} --platform ec2` removes it.",
                )
            time.sleep(min(_POLL_S, timeout_s))

    def _not_up(self, machines: Collection[str]) -> dict[str, str]:
        """Return the console of each machine whose checks have not passed."""
        newest = dict[str, TaggedResource]()
        for one in resources.instances(self.aws, self.experiment):
            newest.setdefault(one.tags.get(resources.MACHINE, ""), one)
        checks = self.aws.pages(
            "ec2",
            "describe_instance_status",
            "InstanceStatuses",
            InstanceIds=[newest[name].id for name in machines if name in newest],
        )
        passed = {
            one["InstanceId"]: (one["InstanceStatus"]["Status"], one["SystemStatus"]["Status"])
            for one in checks
        }
        seen = dict[str, str]()
        for name in machines:
            held = newest.get(name)
            if held is None:
                seen[name] = "no instance"
            elif held.state != "running":
                seen[name] = f"{held.id} is {held.state}"
            elif passed.get(held.id) != ("ok", "ok"):
                seen[name] = f"{held.id} runs, its checks say {passed.get(held.id, 'nothing')}"
        return seen

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return the console's last lines, so many at most, or in brackets why there are none;
        raises nothing, for it is shown where something has gone wrong already.
        """
        try:
            one = self._one(machine)
            said = self._console(one.id)
        except EnvironmentMissing as error:
            return f"(no console: {error.got})"
        last = said.strip().splitlines()[-lines:]
        nothing = f"(nothing yet: {one.id} is {one.state}; EC2 shows the console minutes later)"
        return "\n".join(last) or nothing

    def _console(self, identifier: str) -> str:
        try:
            answer = self.aws.call("ec2", "get_console_output", InstanceId=identifier, Latest=True)
        except AwsRefused as error:
            if error.code != "UnsupportedOperation":  # instance types before Nitro
                raise
            answer = self.aws.call("ec2", "get_console_output", InstanceId=identifier)
        return str(answer.get("Output", ""))

    def _newest(self, machine: str) -> TaggedResource | None:
        found = resources.instances(self.aws, self.experiment, machine)
        return found[0] if found else None

    def _one(self, machine: str) -> TaggedResource:
        found = self._newest(machine)
        if found is None:
            raise EnvironmentMissing(
                f"machine {machine} of {self.experiment}, region {self.aws.region}",
                expected="an instance with its tags",
                got="no living one",
                hint="`sparecraft list --platform ec2` shows what is there; its time to live may "
                "be "
                "over, or its group is making a new one.",
            )
        return found

    def _await(self, one: TaggedResource, state: str) -> None:
        with answering(f"waiting until {one} is off", self.aws.region):
            self.aws.client("ec2").get_waiter(state).wait(
                InstanceIds=[one.id],
                WaiterConfig={"Delay": _POLL_S, "MaxAttempts": int(_OFF_TIMEOUT_S / _POLL_S)},
            )
