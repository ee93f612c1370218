"""Runs what it is sent, with this role's rights: POST /root or /user with a script of bash."""

import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer

AS = {"/root": [], "/user": ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]}


class Service(BaseHTTPRequestHandler):
    """Answers with what the script printed."""

    def do_GET(self) -> None:
        self._answer(b"a service\n")

    def do_POST(self) -> None:
        script = self.rfile.read(int(self.headers["Content-Length"]))
        done = subprocess.run([*AS[self.path], "bash"], input=script, stdout=subprocess.PIPE)
        self._answer(done.stdout)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("", 8080), Service).serve_forever()
