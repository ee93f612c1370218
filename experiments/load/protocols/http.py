"""Requests over HTTP/1.1.

A good answer to a page view is complete, has status 200 and contains the page's text; to an
operation (`HttpRequest`) it has one of its statuses and passes its checks. Any other status is
`bad_status`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from geventhttpclient.response import HTTPParseError, HTTPResponse

from experiments.load.client import BEGIN_BYTES, REPLY_BYTES_MAX, ByteClient, Cut, Garbled, Reply
from experiments.load.http_operation import Expected, host_of


class HttpClient(ByteClient):
    """Page views and operations on one address."""

    def __init__(self, address: tuple[str, int], *, authority: str = "", **limits: Any) -> None:
        super().__init__(address, **limits)
        host = authority or host_of(address)
        self._head = f" HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sparecraft\r\nAccept: */*\r\n"

    def request(self, text: str) -> bytes:
        """Return a view of the page at the path `text`."""
        close = "" if self.keep_alive else "Connection: close\r\n"
        return f"GET {text}{self._head}{close}\r\n".encode()

    def read_reply(self, pieces: Iterator[bytes], expected: bytes | Expected, reply: Reply) -> None:
        response = HTTPResponse(expected.method if isinstance(expected, Expected) else "GET")
        try:
            _feed(response, pieces)
        except HTTPParseError as error:
            raise Garbled from error
        finally:
            reply.status = response.get_code() if response.headers_complete else 0
            reply.bytes = len(response._body_buffer)
            reply.begin = bytes(response._body_buffer[:BEGIN_BYTES])
        reply.keep = not response.should_close()
        if isinstance(expected, Expected):
            body = bytes(response._body_buffer)
            reply.outcome, reply.reason = expected.judge(reply.status, response.items(), body)
        elif reply.status != 200:
            reply.outcome = "bad_status"
        elif expected not in response._body_buffer:
            reply.outcome = "bad_content"


def _feed(response: HTTPResponse, pieces: Iterator[bytes]) -> None:
    while not (response.message_complete and response.get_code() >= 200):
        data = next(pieces)
        if not data:
            # Only an answer without a length may end with the connection.
            until_close = "content-length" not in response and "transfer-encoding" not in response
            if not (response.headers_complete and until_close):
                raise Cut
            response.feed(b"")
            return
        response.feed(data)
        if len(response._body_buffer) > REPLY_BYTES_MAX:
            raise Garbled


CLIENT = HttpClient
