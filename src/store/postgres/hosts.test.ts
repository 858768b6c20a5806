import { expect, test } from "vitest";
import { readHosts } from "./hosts.ts";

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
