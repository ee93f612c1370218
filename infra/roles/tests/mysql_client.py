"""A client of MySQL's protocol that sends one statement and notes whether it was acknowledged."""

from __future__ import annotations

import hashlib
import socket
import struct

CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x8000 | 0x8_0000
TIMEOUT_S = 15.0


class Refused(Exception):
    """An error of the server or of the arbiter: `code` and text."""

    def __init__(self, packet: bytes) -> None:
        self.code = int(struct.unpack("<H", packet[1:3])[0])
        super().__init__(f"{self.code} {packet[9:].decode(errors='replace')}")


class Connection:
    """A session of the account `records`, by mysql_native_password."""

    def __init__(self, address: str, account: str = "records") -> None:
        self._socket = socket.create_connection((address, 3306), timeout=TIMEOUT_S)
        try:
            self._log_in(account)
        except (Refused, OSError):
            self.close()
            raise

    def execute(self, statement: str) -> bytes:
        """Return the packets of the reply to a statement, joined."""
        self._write(0, b"\x03" + statement.encode())
        packet = self._read()
        if packet[0] == 0xFF:
            raise Refused(packet)
        content = packet
        # Columns and rows each end with a short packet.
        ends_left = 0 if packet[0] == 0 else 2
        while ends_left:
            packet = self._read()
            if packet[0] == 0xFF:
                raise Refused(packet)
            ends_left -= packet[0] == 0xFE and len(packet) < 9
            content += packet
        return content

    def close(self) -> None:
        """End the session."""
        self._socket.close()

    def _log_in(self, account: str) -> None:
        greeting = self._read()
        if greeting[0] == 0xFF:
            raise Refused(greeting)
        rest = greeting[greeting.index(b"\0", 1) + 1 :]
        salt = rest[4:12] + rest[31:43]
        name = account.encode() + b"\0"
        head = struct.pack("<IIB23x", CAPABILITIES, 1 << 24, 45)
        proof = _proof(salt, account.encode())
        self._write(
            1, head + name + bytes([len(proof)]) + proof + name + b"mysql_native_password\0"
        )
        reply = self._read()
        if reply[0] != 0:
            raise Refused(reply)

    def _write(self, sequence: int, payload: bytes) -> None:
        self._socket.sendall(struct.pack("<I", len(payload))[:3] + bytes([sequence]) + payload)

    def _read(self) -> bytes:
        head = self._receive(4)
        return self._receive(int.from_bytes(head[:3], "little"))

    def _receive(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = self._socket.recv(size - len(content))
            if not part:
                raise ConnectionError("the connection was closed")
            content += part
        return content


def _proof(salt: bytes, password: bytes) -> bytes:
    once = hashlib.sha1(password).digest()
    mask = hashlib.sha1(salt + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask, strict=True))
