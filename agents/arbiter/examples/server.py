"""Servers to try the arbiter with: `python3 server.py 8081 8082`, one at each port.

GET answers with the server and the path, a request for a WebSocket with one message, hello.
"""

import base64
import hashlib
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler

_WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    where = ""

    def do_GET(self) -> None:
        key = self.headers.get("Sec-WebSocket-Key")
        if key and self.headers.get("Upgrade", "").lower() == "websocket":
            self._switch(key)
        else:
            self._answer()

    do_HEAD = do_GET

    def _answer(self) -> None:
        body = f"{self.path} by {self.where}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _switch(self, key: str) -> None:
        digest = hashlib.sha1((key + _WEBSOCKET).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        self.wfile.write(b"\x81\x05hello\x88\x00")
        self.close_connection = True

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *words: object) -> None:
        pass


class _Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve(where: str) -> None:
    handler = type("At", (Handler,), {"where": where})
    _Tcp(("127.0.0.1", int(where)), handler).serve_forever()


def main(places: list[str]) -> None:
    for where in places[1:]:
        threading.Thread(target=serve, args=(where,), daemon=True).start()
    serve(places[0])


main(sys.argv[1:])
