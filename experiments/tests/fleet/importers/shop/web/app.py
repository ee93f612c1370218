"""GET /greeting: a greeting, and how often it was asked for, which memcached counts."""

import os
import signal
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST, PORT = os.environ["STORE"].split(":")
GREETING = sys.argv[sys.argv.index("--greeting") + 1]
with open("/run/secrets/salt") as file:
    SALT = file.read().strip()


def counted():
    with socket.create_connection((HOST, int(PORT)), timeout=2) as store:
        store.sendall(b"incr greetings 1\r\n")
        said = store.recv(100).strip()
        if said == b"NOT_FOUND":
            store.sendall(b"add greetings 0 0 1\r\n1\r\n")
            said = store.recv(100).strip() and b"1"
        return said.decode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    timeout = 60

    def do_GET(self):
        body = (
            f"{GREETING}, with {SALT}: {counted()}, user {os.getuid()} in {os.getcwd()}\n".encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
