"""Readers of the dictionary in PostgreSQL: each looks up a word, or the words that occur with it.

Every query has a connection of its own, as a PHP page has: the arbiter passes connections through,
so it chooses a server for each query.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pg8000.exceptions import DatabaseError, InterfaceError
from pg8000.native import Connection

from experiments.design.workloads import PAGE_ZIPF, Operation, Population, Workload, lines_of
from experiments.load.sessions import SessionClient

WORDS = Path(__file__).parent / "roles" / "postgresql" / "words.txt"
QUERIES = {
    # The ten entries that fit best, with the word in bold.
    "search": """
        SELECT :word, headword, ts_headline('english', body, plainto_tsquery('english', :word))
        FROM (SELECT headword, body FROM entry, plainto_tsquery('english', :word) AS query
              WHERE search @@ query ORDER BY ts_rank(search, query) DESC, id LIMIT 10) AS best""",
    # The words that occur most often in the entries that have this one: a hash of all their words,
    # which goes to disk where work_mem is too small for it.
    "company": """
        SELECT :word, lexeme, count(*) FROM entry, unnest(search)
        WHERE search @@ plainto_tsquery('english', :word)
        GROUP BY lexeme ORDER BY 3 DESC, 2 LIMIT 10""",
}


class PostgresClient(SessionClient):
    """pg8000: pure Python, so that Locust's sockets serve it."""

    refusals = (DatabaseError,)
    losses = (InterfaceError,)
    idle_s = 0.0

    def open(self) -> Connection:
        """Open a connection of the read-only account, which pg_hba.conf allows without a password.

        It has no TLS: pg8000 would read all certificates of this host for each connection, and no
        other request could be sent during these 50 ms.
        """
        host, port = self.address
        return Connection("reader", host=host, port=port, database="dictionary", ssl_context=False)

    def ask(self, session: Connection, request: str) -> bytes:
        """Return the rows as text, with tabs between columns; `request` is a query and a word."""
        query, word = request.split(" ")
        rows: list[list[Any]] = session.run(QUERIES[query], word=word)
        return "\n".join("\t".join(map(str, row)) for row in rows).encode()

    def shut(self, session: Connection) -> None:
        """Close the connection, which ends its backend."""
        session.close()


def readers() -> Population:
    """Return both queries for each word. Each row of an answer begins with the word."""
    return Population(
        tuple(
            Operation(f"{query} {word}", f"{query} {word}", f"{word}\t")
            for word in lines_of(WORDS)
            for query in QUERIES
        ),
        PAGE_ZIPF,
    )


WORKLOADS = {"dictionary-reader": Workload(readers, roles=("postgresql",), client=PostgresClient)}
