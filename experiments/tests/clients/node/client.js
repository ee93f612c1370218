// An ordinary user of a current client of Node: CLIENT PORT READS. Prints the version of the client.
"use strict";
const assert = require("node:assert");
const account = { host: "127.0.0.1", user: "wiki", password: "wiki-read", database: "wiki" };

const clients = {
  async "node-redis"(port, reads) {
    const client = require("redis").createClient({ socket: { port } });
    await client.connect();
    await client.set("key", "value");
    for (let number = 0; number < reads; number++) {
      assert.equal(await client.get("key"), "value");
      if (number % 10 === 0) await client.multi().incr("number").exec();
    }
    await client.close();
    return "redis";
  },
  async ioredis(port, reads) {
    const { Redis } = require("ioredis");
    const client = new Redis(port);
    await client.set("key", "value");
    for (let number = 0; number < reads; number++) {
      assert.equal(await client.get("key"), "value");
      if (number % 10 === 0) await client.multi().incr("number").exec();
    }
    client.disconnect();
    return "ioredis";
  },
  async mysql2(port, reads) {
    const connection = await require("mysql2/promise").createConnection({ port, ...account });
    for (const ask of ["query", "execute"]) {
      for (let number = 0; number < reads / 2; number++) {
        const [rows] = await connection[ask]("SELECT title FROM page WHERE id = ?", [2]);
        assert.equal(rows[0].title, "Two");
      }
    }
    await connection.end();
    return "mysql2";
  },
};

const [name, port, reads] = process.argv.slice(2);
clients[name](Number(port), Number(reads)).then(
  (module) => console.log(require(`${module}/package.json`).version),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
