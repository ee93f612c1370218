"""Operations on machines of EC2: stop, start, reboot, replace, read the console.

A machine is found by its tags, the newest one alive, because in the scheme `cloud` auto-scaling
groups make instances that no state contains.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from core.errors import EnvironmentMissing
from experiments.testbed.platforms.ec2 import resources
from experiments.testbed.platforms.ec2.aws import Aws, AwsRefused, aws_errors
from experiments.testbed.platforms.ec2.resources import TaggedResource
from experiments.testbed.platforms.terraform import Progress

_ON = ("pending", "running")
_OFF_TIMEOUT_S = 600.0  # a stop with force takes up to minutes
_POLL_S = 5.0


class Ec2Machines:
    """The machines of one experiment in one region, with a platform's operations on them."""

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
        """Inject a fault that no agent can inject into its own machine."""
        {"machine.crash": self._cut_off, "machine.reboot": self._reboot}[kind](
            self._instance_of(machine)
        )

    def revert(self, kind: str, machine: str) -> None:
        if kind in ("machine.crash", "machine.reboot"):
            self.start(machine)

    def running(self, machine: str) -> bool:
        instance = self._newest(machine)
        return instance is not None and instance.state in _ON

    def start(self, machine: str) -> None:
        """Power on, if the machine is off. A group replaces its machine by itself."""
        if self._newest(machine) is None and self._has_group(machine):
            return
        instance = self._instance_of(machine)
        if instance.state in _ON or instance.group:
            return
        if instance.state == "stopping":
            self._await_state(instance, "instance_stopped")  # EC2 refuses to start it before
        self.aws.call("ec2", "start_instances", InstanceIds=[instance.id])

    def _cut_off(self, instance: TaggedResource) -> None:
        """Cut the power as nearly as EC2 can: a stop that does not wait for the operating system. A
        spot machine cannot be stopped: it ends, and its group makes another."""
        if instance.spot:
            self._give_up(instance)
            return
        self.aws.call("ec2", "stop_instances", InstanceIds=[instance.id], Force=True)

    def _reboot(self, instance: TaggedResource) -> None:
        """Ask for a restart; EC2 forces it where the operating system does not obey in minutes."""
        self.aws.call("ec2", "reboot_instances", InstanceIds=[instance.id])

    def stop(self, machine: str) -> None:
        """Power off at once, if the machine is on. Its group, if any, has to replace it at once,
        without waiting for its own check."""
        instance = self._newest(machine)
        if instance is None or instance.state not in _ON:
            return
        self._cut_off(instance)
        if instance.group and not instance.spot:
            self._give_up(instance)

    def replace(self, machine: str, progress: Progress) -> None:
        """Make its group replace a machine that is off. A machine that is on is the new one: the
        fence has told the group already. Raises EnvironmentMissing if it has no group."""
        instance = self._newest(machine)
        if instance is None or instance.state in _ON:
            return
        if not instance.group:
            raise EnvironmentMissing(
                f"machine {machine} of {self.experiment}, region {self.aws.region}",
                expected="an instance of an auto-scaling group, which replaces it",
                got=f"{instance.id}, which belongs to none",
                hint="Only fleets of the scheme cloud replace machines; on-prem repairs them.",
            )
        self._give_up(instance)
        progress(f"{machine}: its group makes a new instance")

    def _give_up(self, instance: TaggedResource) -> None:
        self.aws.call(
            "autoscaling",
            "terminate_instance_in_auto_scaling_group",
            InstanceId=instance.id,
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
        machines = self._load_machines()
        return machines[min(machines)] if machines else "(no load machine)"

    def load_helpers(self) -> int:
        """Return the number of load machines without the first, which is the runner."""
        return max(0, len(self._load_machines()) - 1)

    def cpu_s(self) -> Mapping[str, float]:
        """Return nothing: the machines are on other hosts."""
        return {}

    def _load_machines(self) -> dict[str, str]:
        return {
            instance.tags.get(resources.MACHINE, ""): instance.id
            for instance in reversed(resources.instances(self.aws, self.experiment))
            if instance.tags.get("sparecraft:role") == "load"
        }

    def await_up(self, machines: Collection[str], timeout_s: float) -> None:
        """Wait until EC2's own checks of each machine have passed.

        Raises EnvironmentMissing after `timeout_s`, with the output of the first of them.
        """
        deadline = time.monotonic() + timeout_s
        while pending := self._pending_states(machines):
            if time.monotonic() > deadline:
                name, state = next(iter(pending.items()))
                more = f" (and {len(pending) - 1} others)" if len(pending) > 1 else ""
                raise EnvironmentMissing(
                    f"machine {name}{more}",
                    expected=f"EC2's checks to pass within {timeout_s:.0f} s",
                    got=f"{state}; it printed: {self.machine_logs(name)}",
                    hint="The fleet stays up, to look into, until its time to live is over; "
                    f"`sparecraft down {self.experiment} --platform ec2` removes it.",
                )
            time.sleep(min(_POLL_S, timeout_s))

    def await_off(self, machines: Collection[str], timeout_s: float) -> None:
        """Wait until each standby has stopped itself, which it does after its creation.

        Raises EnvironmentMissing after `timeout_s`, with the output of the first of them.
        """
        deadline = time.monotonic() + timeout_s
        while pending := [name for name in machines if self._instance_of(name).state != "stopped"]:
            if time.monotonic() > deadline:
                raise EnvironmentMissing(
                    f"standby {pending[0]}",
                    expected=f"it to be made, and to stop itself, within {timeout_s:.0f} s",
                    got=f"{self._instance_of(pending[0]).state}; {self.machine_logs(pending[0])}",
                    hint="The fleet stays up, to look into, until its time to live is over; "
                    f"`sparecraft down {self.experiment} --platform ec2` removes it.",
                )
            time.sleep(min(_POLL_S, timeout_s))

    def _pending_states(self, machines: Collection[str]) -> dict[str, str]:
        """Return the state of each machine whose checks have not passed."""
        newest = dict[str, TaggedResource]()
        for resource in resources.instances(self.aws, self.experiment):
            newest.setdefault(resource.tags.get(resources.MACHINE, ""), resource)
        checks = self.aws.pages(
            "ec2",
            "describe_instance_status",
            "InstanceStatuses",
            InstanceIds=[newest[name].id for name in machines if name in newest],
        )
        passed = {
            check["InstanceId"]: (
                check["InstanceStatus"]["Status"],
                check["SystemStatus"]["Status"],
            )
            for check in checks
        }
        states = dict[str, str]()
        for name in machines:
            instance = newest.get(name)
            if instance is None:
                states[name] = "no instance"
            elif instance.state != "running":
                states[name] = f"{instance.id} is {instance.state}"
            elif passed.get(instance.id) != ("ok", "ok"):
                states[name] = (
                    f"{instance.id} runs, its checks say {passed.get(instance.id, 'nothing')}"
                )
        return states

    def machine_logs(self, machine: str, lines: int = 20) -> str:
        """Return at most `lines` last lines of the console, or in brackets why there are none.
        Raises nothing, because it is shown after another error.
        """
        try:
            instance = self._instance_of(machine)
            output = self._console(instance.id)
        except EnvironmentMissing as error:
            return f"(no console: {error.got})"
        last = output.strip().splitlines()[-lines:]
        nothing = (
            f"(nothing yet: {instance.id} is {instance.state}; EC2 shows the console minutes later)"
        )
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
        instances = resources.instances(self.aws, self.experiment, machine)
        return instances[0] if instances else None

    def _instance_of(self, machine: str) -> TaggedResource:
        instance = self._newest(machine)
        if instance is None:
            raise EnvironmentMissing(
                f"machine {machine} of {self.experiment}, region {self.aws.region}",
                expected="an instance with its tags",
                got="no living one",
                hint="`sparecraft list --platform ec2` shows what is there; its time to live may "
                "be "
                "over, or its group is making a new one.",
            )
        return instance

    def _await_state(self, instance: TaggedResource, state: str) -> None:
        with aws_errors(f"waiting until {instance} is off", self.aws.region):
            self.aws.client("ec2").get_waiter(state).wait(
                InstanceIds=[instance.id],
                WaiterConfig={"Delay": _POLL_S, "MaxAttempts": int(_OFF_TIMEOUT_S / _POLL_S)},
            )
