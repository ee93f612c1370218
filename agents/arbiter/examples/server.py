"""Servers to try the arbiter with: `python3 server.py 8081 8082`, one at each port.

GET answers with the server and the path.
"""

import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    where = ""

    def do_GET(self) -> None:
        body = f"{self.path} by {self.where}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

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
