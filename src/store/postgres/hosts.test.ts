import type pg from "pg";
import { describe, expect, test } from "vitest";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { Hosts, readHosts } from "./hosts.ts";

const HOSTS: [what: string, url: string, hosts: readonly [name: string, url: string][]][] = [
  ["one host", "postgres://u:p@db/rondo", [["db:5432", "postgres://u:p@db/rondo"]]],
  ["a port", "postgresql://u@db:6000/rondo", [["db:6000", "postgresql://u@db:6000/rondo"]]],
  [
    "several hosts",
    "postgres://u:p%40@a:5432,b:5433,c/rondo?target_session_attrs=read-write&sslmode=require",
    [
      ["a:5432", "postgres://u:p%40@a:5432/rondo?sslmode=require"],
      ["b:5433", "postgres://u:p%40@b:5433/rondo?sslmode=require"],
      ["c:5432", "postgres://u:p%40@c/rondo?sslmode=require"],
    ],
  ],
  [
    "hosts that are addresses, without a user",
    "postgres://[::1]:5432,127.0.0.1/rondo?target_session_attrs=primary",
    [
      ["[::1]:5432", "postgres://[::1]:5432/rondo"],
      ["127.0.0.1:5432", "postgres://127.0.0.1/rondo"],
    ],
  ],
  [
    "a socket",
    "postgres://u@/rondo?host=/run/postgresql",
    [["/run/postgresql:5432", "postgres://u@/rondo?host=/run/postgresql"]],
  ],
  ["a text that is no URL of PostgreSQL", "db", [["the database", "db"]]],
];

test.each(HOSTS)("a URL with %s", (_what, url, hosts) => {
  expect(readHosts(url).map((host) => [host.name, host.url])).toEqual(hosts);
});

test.each(["read-only", "standby", "prefer-standby"])(
  "a URL that asks for %s is refused: Rondo writes",
  (wanted) => {
    expect(() => readHosts(`postgres://a,b/rondo?target_session_attrs=${wanted}`)).toThrow(
      `target_session_attrs=${wanted}, but Rondo writes. Say read-write`,
    );
  },
);

test("several hosts in the parameter `host` are refused, with the way to write them", () => {
  expect(() => readHosts("postgres:///rondo?host=a,b")).toThrow("postgres://user@a:5432,b:5432/database");
});

describe("a second connection, by which a pooler is looked for,", () => {
  /** A client at a pooler: its process id is not the announced one. Its graceful end never comes. */
  class PooledClient {
    readonly processID = 1;
    isDropped = false;
    refuse = (_: Error): void => {};
    readonly connect: () => Promise<void>;
    readonly #pid: number;

    constructor(pid: number, connect: (client: PooledClient) => Promise<void>) {
      this.#pid = pid;
      this.connect = () => connect(this);
    }

    readonly connection = {
      stream: {
        destroy: (error: Error): void => {
          this.isDropped = true;
          this.refuse(error);
        },
      },
    };

    async query(text: string): Promise<{ rows: object[] }> {
      if (text.includes("pg_is_in_recovery")) return { rows: [{ standby: "false" }] };
      if (text.includes("pg_walfile_name")) return { rows: [{ segment: "000000010000000000000001" }] };
      return { rows: [{ pid: String(this.#pid) }] };
    }

    end(): Promise<void> {
      return new Promise(() => {});
    }
  }

  function hosts(connectSecond: (client: PooledClient) => Promise<void>) {
    const clock = new VirtualClock();
    const clients: PooledClient[] = [];
    const make = (): pg.Client => {
      const isFirst = clients.length === 0;
      const client = new PooledClient(100 + clients.length, isFirst ? async () => {} : connectSecond);
      clients.push(client);
      return client as unknown as pg.Client;
    };
    const connected = new Hosts("postgres://db/rondo", clock).connect(make, 1_000);
    return { clock, clients, connected };
  }

  const dropped = (clients: readonly PooledClient[]) => clients.map(({ isDropped }) => isDropped);

  test("that is refused is a fault, and nothing waits for its end", async () => {
    const { clients, connected } = hosts(() => Promise.reject(new Error("too many clients")));
    await expect(connected).rejects.toThrow("too many clients");
    expect(dropped(clients)).toEqual([true, true]);
  });

  test("that gets no answer is dropped in time", async () => {
    const { clock, clients, connected } = hosts(
      (client) =>
        new Promise((_, reject) => {
          client.refuse = reject;
        }),
    );
    const refused = expect(connected).rejects.toThrow("no answer in time");
    await clock.settle();
    await clock.advance(1_000);
    await refused;
    expect(dropped(clients)).toEqual([true, true]);
  });

  test("that has its own process shows that there is no such pooler, and is closed", async () => {
    const { clients, connected } = hosts(async () => {});
    await connected;
    expect(dropped(clients)).toEqual([false, true, true, true, true, true]);
  });
});
