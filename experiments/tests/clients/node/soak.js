#!/usr/bin/env node
// Checked requests of a current client of Node until standard input ends: CLIENT PORT. Writes a line for
// each reply: `right`, `error CAUSE` or `wrong DESCRIPTION`.
"use strict";
const { createHash } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");
const { isDeepStrictEqual } = require("node:util");

const ACTS = 50; // of a session; those after the first 40 write
const READS = 40;
const PAUSE_MS = 100;
const RETRY_MS = 500;
const ROWS = 999; // shares no divisor with ACTS, so that rows that were written are read later
const account = { host: "127.0.0.1", user: "wiki", password: "wiki-read", database: "wiki" };

const writeLine = (line) => process.stdout.write(line.replace(/\s+/g, " ").slice(0, 300) + "\n");

// The text that belongs to a name and a number.
function text(name, number) {
  const key = `${name}=${number}`;
  return `${key}=` + createHash("md5").update(key).digest("hex").repeat(1 + (number % 64));
}

function check(request, reply, ...expected) {
  const isRight = expected.some((value) => isDeepStrictEqual(reply, value));
  writeLine(isRight ? "right" : `wrong ${request}: ${JSON.stringify(reply)}`);
}

// Sessions of Redis go on after an error.
function redisSession(name, client, close) {
  return {
    lasts: true,
    async read(number) {
      check("GET", await client.get(`${name}:${number}`), text(name, number), null);
    },
    async write(number) {
      const row = number % ROWS;
      check("SET", await client.set(`${name}:${row}`, text(name, row)), "OK");
      const replies = await client.multi().set(name, text("write", number)).get(name).exec();
      check("EXEC", replies.flat().filter(Boolean), ["OK", text("write", number)]);
    },
    close,
  };
}

const connect = {
  async "node-redis"(port) {
    const client = require("redis").createClient({ socket: { port } });
    client.on("error", () => {}); // the request fails, too
    await client.connect();
    return redisSession("node-redis", client, () => client.destroy());
  },
  async ioredis(port) {
    const { Redis } = require("ioredis");
    const client = new Redis(port);
    client.on("error", () => {}); // the request fails, too
    return redisSession("ioredis", client, () => client.disconnect());
  },
  async mysql2(port) {
    const connection = await require("mysql2/promise").createConnection({ port, ...account });
    connection.on("error", () => {}); // the request fails, too
    const first = async (query, values) => (await connection.execute(query, values))[0][0]?.text;
    return {
      lasts: false,
      async read(number) {
        const page = await first("SELECT text FROM article WHERE id = ?", [number]);
        check("SELECT", page, text("article", number));
      },
      async write(number) {
        const query = "SELECT text FROM proposal WHERE client = ? AND id = ?";
        const row = ["mysql2", number, text("mysql2", number)];
        await connection.beginTransaction();
        const [result] = await connection.query("INSERT INTO proposal VALUES (?, ?, ?)", row);
        check("INSERT", result.affectedRows, 1);
        check("SELECT after INSERT", await first(query, row.slice(0, 2)), row[2]);
        await connection.rollback();
        check("SELECT after ROLLBACK", await first(query, row.slice(0, 2)), undefined);
      },
      close: () => connection.destroy(),
    };
  },
};

const CONNECTION = /^(E[A-Z]+|PROTOCOL_CONNECTION_LOST)$/; // ECONNRESET, EPIPE and others of the system
// ioredis and node-redis have no code for these, nor mysql2 after its connection's end.
const CLOSED = /^(Connection is closed|Command aborted due to connection close|Socket closed|Can't add new command)/;

function cause(error) {
  if (error.errno >= 1000) return `MySQL error ${error.errno}`;
  if (CONNECTION.test(error.code)) return `connection: ${error.code}`;
  return CLOSED.test(error.message) ? `connection: ${error.message}` : `${error.message}`;
}

async function session(name, port, first) {
  let connection;
  try {
    connection = await connect[name](port);
    for (let number = first; number < first + ACTS; number++) {
      await sleep(PAUSE_MS);
      try {
        if (number - first < READS) await connection.read(number % ROWS);
        else await connection.write(number);
      } catch (error) {
        if (!connection.lasts) throw error;
        writeLine(`error ${cause(error)}`);
        await sleep(RETRY_MS);
      }
    }
  } catch (error) {
    writeLine(`error ${cause(error)}`);
    await sleep(RETRY_MS);
  } finally {
    connection?.close();
  }
}

process.stdin.on("end", () => process.exit(0)).resume();
(async () => {
  const [name, port] = process.argv.slice(2);
  for (let first = 0; ; first += ACTS) await session(name, Number(port), first);
})();
