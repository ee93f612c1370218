-- The dictionary: an entry is a headword, its text, and the text's words for the search.
-- "reader" may read it and nothing else; "replicator" may follow the server.
\set ON_ERROR_STOP on
CREATE TABLE entry (
    id integer PRIMARY KEY,
    headword text NOT NULL,
    body text NOT NULL,
    search tsvector NOT NULL
);
CREATE TEMPORARY TABLE line (id integer, headword text, body text);
\copy line FROM '/tmp/entries.csv' WITH (FORMAT csv)
INSERT INTO entry SELECT id, headword, body, to_tsvector('english', headword || ' ' || body) FROM line;
CREATE INDEX entry_search ON entry USING gin (search) WITH (fastupdate = off);
CREATE INDEX entry_headword ON entry (lower(headword));
CREATE ROLE reader LOGIN;
CREATE ROLE replicator LOGIN REPLICATION;
REVOKE ALL ON SCHEMA public FROM public;
GRANT USAGE ON SCHEMA public TO reader;
GRANT SELECT ON entry TO reader;
ALTER ROLE reader SET default_transaction_read_only = on;
