"""HTTP servers that misbehave on a real socket, each in the way its path names."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

TITLE = b"<title>Abash - Wiki</title>"


def _answer(status: str, body: bytes, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


class Server:
    """A threaded server; `/good` answers, the other paths misbehave as the method says."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[str] = []
        self._stop = threading.Event()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/"

    def close(self) -> None:
        """End every connection and thread."""
        self._stop.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            data = b""
            while chunk := connection.recv(65536):
                data += chunk
                while b"\r\n\r\n" in data:
                    head, _, data = data.partition(b"\r\n\r\n")
                    path = head.split(b" ")[1].decode()
                    self.requests.append(path)
                    act: Callable[[socket.socket], bool] = getattr(self, path.strip("/"))
                    if not act(connection):
                        return
        self._open.discard(connection)

    def good(self, connection: socket.socket) -> bool:
        """The page, and the connection stays."""
        connection.sendall(_answer("200 OK", b"<html>" + TITLE + b"x" * 5000))
        return True

    def chunked(self, connection: socket.socket) -> bool:
        """The page in two chunks, the title across them."""
        parts = (TITLE[:9], TITLE[9:])
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + body + b"0\r\n\r\n")
        return True

    def until_close(self, connection: socket.socket) -> bool:
        """The page without a length, ended by the connection's end."""
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + TITLE)
        return False

    def leave(self, connection: socket.socket) -> bool:
        """The page, and then the connection ends although it was to be kept."""
        # Corked, the end travels in the segment of the page: no request can come between the two.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        self.good(connection)
        connection.shutdown(socket.SHUT_WR)
        return False

    def wrong_title(self, connection: socket.socket) -> bool:
        """Another page."""
        connection.sendall(_answer("200 OK", b"<title>Error - Wiki</title>"))
        return True

    def fails(self, connection: socket.socket) -> bool:
        """Status 500, though with the title."""
        connection.sendall(_answer("500 Internal Server Error", TITLE))
        return True

    def redirects(self, connection: socket.socket) -> bool:
        """Status 302, which is not followed."""
        connection.sendall(_answer("302 Found", b"", "Location: /good\r\n"))
        return True

    def garbage(self, connection: socket.socket) -> bool:
        """Not HTTP."""
        connection.sendall(b"220 mail.example ESMTP\r\n\r\n")
        return True

    def reset(self, connection: socket.socket) -> bool:
        """A reset instead of an answer."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def cut(self, connection: socket.socket) -> bool:
        """Half of the page."""
        connection.sendall(_answer("200 OK", TITLE + b"x" * 1000)[:200])
        return False

    def cut_chunked(self, connection: socket.socket) -> bool:
        """All of the page, without the last chunk."""
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"%x\r\n%s\r\n" % (len(TITLE), TITLE))
        return False

    def never(self, connection: socket.socket) -> bool:
        """No answer at all."""
        while connection.recv(65536):
            pass
        return False

    def trickle(self, connection: socket.socket) -> bool:
        """A page of a million bytes, one byte in 50 ms."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + TITLE)
        while not self._stop.wait(0.05):
            connection.sendall(b"x")
        return False


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def refusing() -> Iterator[str]:
    """The URL of a port that is bound and does not listen."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"


@contextmanager
def deaf() -> Iterator[str]:
    """The URL of a port whose backlog is full: the kernel drops what tries to connect."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        try:
            yield f"http://127.0.0.1:{address[1]}/"
        finally:
            for filler in fillers:
                filler.close()
