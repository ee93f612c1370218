"""One host by OpenSSH's client: an unknown host key is refused, and no question is asked."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.paths import ROOT
from experiments.testbed.platforms.hosts.hosts_file import Host, Hosts

_BOOT = ROOT / "infra" / "boot"
_CONNECT_TIMEOUT_S = 10
_ALIVE_S, _ALIVE_TRIES = 5, 3  # a host that vanishes is given up after their product
_TIMEOUT_S = 900.0  # an installation's
_FREE_MB_MIN = 1024
_OURS = {10: "it is taken", 11: "it is not this experiment's"}
CHANGED = 12


@dataclass(frozen=True)
class Remote:
    """A host, and how to get there."""

    host: Host
    listed: Hosts

    def survey(self) -> JsonObject:
        """Return the facts of the host. Raises EnvironmentMissing if it cannot be a machine."""
        found = self._survey()
        wants = {
            "root": (found["root"], "a user that is root, or may `sudo -n`", "neither"),
            "apt": (found["apt"], "Debian or Ubuntu", "no apt-get"),
            "data": (
                found["data_address"] is not None,
                f"interface {self.host.data_interface} with one IPv4 address",
                "none, or several",
            ),
            "own": (
                not found["shared"],
                f"{self.host.data_interface} to carry nothing else",
                "the interface of this ssh connection",
            ),
            "disk": (
                found["free_mb"] >= _FREE_MB_MIN or found["holder"] is not None,
                f"{_FREE_MB_MIN} MB free below /opt",
                f"{found['free_mb']} MB",
            ),
            "cores": (
                found["cores"] >= self.host.cores,
                f"{self.host.cores} cores",
                str(found["cores"]),
            ),
        }
        for holds, expected, got in wants.values():
            if not holds:
                raise self._error(
                    expected, got, "Mend the host, or its lines in the file of hosts."
                )
        return found

    def holder(self) -> dict[str, str] | None:
        """Return the host's owner."""
        held: dict[str, str] | None = self._survey()["holder"]
        return held

    def runs(self) -> bool:
        """True if the machine's program runs."""
        return bool(self._survey()["program"])

    def _survey(self) -> JsonObject:
        found: JsonObject = json.loads(self._fresh("survey", self.host.data_interface))
        return found

    def take(self, experiment: str, expires: str) -> None:
        """Have it for one experiment, until then. Raises EnvironmentMissing where another has."""
        self._fresh("take", experiment, expires)

    def install(self, experiment: str, bundle: bytes, content: Path, settings: JsonObject) -> None:
        """The machine of `settings`, made of its role's part of the bundle, and of its content
        where that is here. Raises EnvironmentMissing with what the host said."""
        home = "/opt/sparecraft/bundle"
        self._shell(f"rm -rf {home} && mkdir -p {home} && tar -xzf - -C {home}", bundle)
        if content.exists():
            self._shell(f"cat >{home}/content.tar.gz", content.read_bytes())
        told = {"role": settings["role"], "files": settings["files"]}
        self._run_boot("install", experiment, text=json.dumps(told).encode())

    def start(self, experiment: str) -> None:
        """The machine's program."""
        self._run_boot("start", experiment)

    def stop(self, experiment: str) -> None:
        """The machine's program and all that it runs, at once."""
        self._run_boot("stop", experiment)

    def release(self, experiment: str) -> list[str]:
        """Uninstall; returns what is not as it was before."""
        said = self._fresh("release", experiment, also=(CHANGED,))
        return list(json.loads(said.splitlines()[-1])) if said.strip() else []

    def log(self, lines: int) -> str:
        """Return the last lines of the machine's program."""
        return self._shell(f"tail -n {lines} /var/log/sparecraft.log")

    def reboot(self) -> None:
        """The kernel's own restart, at once; the connection does not survive it."""
        self._shell("(sleep 0.2; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")

    def _fresh(self, *words: str, also: tuple[int, ...] = ()) -> str:
        """Return a word of host.py, as it is here; leaves nothing but what the word does."""
        command = " ".join(map(shlex.quote, words))
        return self._shell(
            'd=$(mktemp -d) && tar -xzf - -C "$d" && '
            f'{{ python3 -B "$d/host.py" {command}; rc=$?; rm -rf "$d"; exit $rc; }}',
            _programs(),
            also=also,
        )

    def _run_boot(self, *words: str, text: bytes = b"") -> str:
        command = " ".join(map(shlex.quote, words))
        return self._shell(f"python3 -B /var/lib/sparecraft-host/boot/host.py {command}", text)

    def _shell(self, script: str, text: bytes = b"", *, also: tuple[int, ...] = ()) -> str:
        """Return the output of a shell of root's. Raises EnvironmentMissing for an exit code that
        is neither 0 nor in `also`.
        """
        root = "sh -c" if self.host.user == "root" else "sudo -n -E sh -c"
        try:
            done = subprocess.run(
                [*self._client(), f"{root} {shlex.quote(script)}"],
                input=text,
                capture_output=True,
                timeout=_TIMEOUT_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise self._error(
                "an end", f"none within {_TIMEOUT_S:.0f} s", "See the host."
            ) from error
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        if done.returncode not in (0, *also):
            raise self._refused(done.returncode, said)
        return done.stdout.decode()

    def _client(self) -> list[str]:
        program = shutil.which("ssh")
        if program is None:
            raise self._error("OpenSSH's client", "no ssh on PATH", "Install openssh-client.")
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": _CONNECT_TIMEOUT_S,
            "ServerAliveInterval": _ALIVE_S,
            "ServerAliveCountMax": _ALIVE_TRIES,
        }
        if self.listed.known_hosts is not None:
            options["UserKnownHostsFile"] = self.listed.known_hosts
            options["GlobalKnownHostsFile"] = "/dev/null"
        if self.listed.key is not None:
            options |= {"IdentityFile": self.listed.key, "IdentitiesOnly": "yes"}
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        where = [f"-p{self.host.port}", f"{self.host.user}@{self.host.address}"]
        return [program, "-T", *given, *where, "--"]

    def _refused(self, code: int, said: str) -> EnvironmentMissing:
        tail = said[-1500:] or f"exit code {code}"
        if code != 255:  # ssh's own
            why = _OURS.get(code, "it failed")
            return self._error("success", f"{why}: {tail}", "`sparecraft down` gives hosts back.")
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said or "host key" in said.lower():
            return self._error(
                "the host key that is known",
                tail,
                "Find out why it is another before you trust it: `ssh-keyscan` and the console.",
            )
        return self._error(
            "an answer of ssh", tail, "See whether the host is up, and the key fits."
        )

    def _error(self, expected: str, got: str, hint: str) -> EnvironmentMissing:
        where = f"host {self.host.name} ({self.host.user}@{self.host.address})"
        return EnvironmentMissing(where, expected=expected, got=got, hint=hint)


def _programs() -> bytes:
    """Return the parts of host.py, as an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("host.py", "before.py", "back.py", "role.py", "units.py"):
            archive.add(_BOOT / name, name)
    return packed.getvalue()
