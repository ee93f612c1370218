"""Page views over HTTP/1.1. Good is a complete answer of status 200 that contains what the page
must; any other status is `bad_status`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from geventhttpclient.response import HTTPParseError, HTTPResponse

from experiments.load.client import REPLY_BYTES_MAX, ByteClient, Cut, Garbled, Reply


class HttpClient(ByteClient):
    """Page views on one address."""

    def __init__(self, address: tuple[str, int], **limits: Any) -> None:
        super().__init__(address, **limits)
        host = address[0] if address[1] == 80 else f"{address[0]}:{address[1]}"
        self._head = f" HTTP/1.1\r\nHost: {host}\r\nUser-Agent: sparecraft\r\nAccept: */*\r\n\r\n"

    def request(self, text: str) -> bytes:
        """A view of the page at the path `text`."""
        return f"GET {text}{self._head}".encode()

    def read_reply(self, pieces: Iterator[bytes], wanted: bytes, reply: Reply) -> None:
        response = HTTPResponse("GET")
        try:
            _feed(response, pieces)
        except HTTPParseError as error:
            raise Garbled from error
        finally:
            reply.status = response.get_code() if response.headers_complete else 0
            reply.bytes = len(response._body_buffer)
        reply.keep = not response.should_close()
        if reply.status != 200:
            reply.outcome = "bad_status"
        elif wanted not in response._body_buffer:
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
