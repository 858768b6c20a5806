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
      `target_session_attrs=${wanted}, but Rondo needs a server that accepts writes. Set it to read-write`,
    );
  },
);

test("several hosts in the parameter `host` are refused, with the way to write them", () => {
  expect(() => readHosts("postgres:///rondo?host=a,b")).toThrow("postgres://user@a:5432,b:5432/database");
});

describe("hosts that are different databases", () => {
  interface Server {
    readonly system: string | null;
    readonly isStandby?: boolean;
    readonly timeline?: number;
    readonly startedAt?: string;
  }

  /** Connects to servers by their host names. */
  function connector(servers: Map<string, Server>) {
    const hosts = new Hosts("postgres://a,b/rondo", new VirtualClock());
    const dropped: string[] = [];
    const make = (url: string): pg.Client => {
      const name = new URL(url).hostname;
      const { system, isStandby = false, timeline = 1, startedAt = "0" } = servers.get(name) as Server;
      const answers: [part: string, row: object][] = [
        ["pg_is_in_recovery", { standby: String(isStandby) }],
        ["pg_walfile_name", { segment: `0000000${timeline}0000000000000001` }],
        ["pg_control_system", { system }],
        ["pg_postmaster_start_time", { started: startedAt }],
        ["pg_backend_pid", { pid: "7" }],
      ];
      return {
        processID: 7,
        connect: async () => {},
        connection: { stream: { destroy: () => dropped.push(name) } },
        query: async (text: string) => {
          if (system === null && /pg_control_system|pg_walfile_name/.test(text))
            throw Object.assign(new Error("permission denied"), { code: "42501", severity: "ERROR" });
          return { rows: [answers.find(([part]) => text.includes(part))?.[1] as object] };
        },
      } as unknown as pg.Client;
    };
    return { connect: () => hosts.connect(make, 1_000), dropped };
  }

  const REFUSED: [what: string, a: Server, b: Server, message: string][] = [
    [
      "two primaries",
      { system: "111" },
      { system: "222" },
      "a:5432 (system identifier 111), b:5432 (system identifier 222)",
    ],
    [
      "a primary and a standby of another one",
      { system: "111" },
      { system: "222", isStandby: true },
      "a:5432 (system identifier 111), b:5432 (system identifier 222)",
    ],
    [
      "two primaries that do not tell their identifiers",
      { system: null, startedAt: "1 o'clock" },
      { system: null, startedAt: "2 o'clock" },
      "a:5432 (start time of the server 1 o'clock), b:5432 (start time of the server 2 o'clock)",
    ],
  ];

  test.each(REFUSED)("are refused at the start: %s", async (_what, a, b, message) => {
    const { connect, dropped } = connector(new Map(Object.entries({ a, b })));
    await expect(connect()).rejects.toThrow(
      `the hosts of the URL are different databases, not a primary and its standbys: ${message}`,
    );
    expect(new Set(dropped)).toEqual(new Set(["a", "b"]));
  });

  test("are not used later: only servers of the database that was used first", async () => {
    const servers = new Map<string, Server>([
      ["a", { system: "111" }],
      ["b", { system: "111", isStandby: true }],
    ]);
    const { connect } = connector(servers);
    expect((await connect()).host.name).toBe("a:5432");
    servers.set("a", { system: "222", timeline: 5 });
    await expect(connect()).rejects.toThrow(
      "a:5432 is another database (its system identifier is 222, that of the database 111)",
    );
    servers.set("b", { system: "111", timeline: 2 });
    expect((await connect()).host.name).toBe("b:5432");
  });

  test("are not two ways to one server", async () => {
    const servers = { a: { system: null, startedAt: "1" }, b: { system: null, startedAt: "1" } };
    await connector(new Map(Object.entries(servers))).connect();
  });
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
