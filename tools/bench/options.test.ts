import { expect, test } from "vitest";
import { readOptions } from "./options.ts";

const names = (args: string[]): unknown => {
  const options = readOptions(args);
  return typeof options === "object" && options !== null
    ? options.scenarios.map(({ name }) => name)
    : options;
};

test("all scenarios run unless some are named", () => {
  expect(names([])).toContain("timers");
  expect(names(["--only", "chain,idle"])).toEqual(["chain", "idle"]);
  expect(names(["--profile", "starts"])).toEqual(["starts"]);
});

test("the one with a broker runs only where it is named", () => {
  expect(names([])).not.toContain("amqp");
  expect(names(["amqp"])).toEqual(["amqp"]);
  expect(names(["--short", "chain", "amqp"])).toEqual(["chain", "amqp"]);
});

test("the real jobs run over both stores unless one is named", () => {
  expect(names(["--real", "--only", "chains"])).toEqual(["real-chains-file", "real-chains-postgres"]);
  expect(names(["--real", "--only", "chains", "--store", "file:x"])).toEqual(["real-chains-file"]);
  expect(names(["--real", "--store", "postgres", "starts"])).toEqual(["real-starts-postgres"]);
  expect(names(["--real"])).not.toContain("real-stored-file");
  expect(names(["--real", "--long"])).toContain("real-stored-file");
  expect(readOptions(["--real"])).toMatchObject({ postgres: { url: null } });
  expect(readOptions(["--real", "--store", "file:x"])).toMatchObject({ postgres: null, directory: "x" });
  expect(names(["--real", "--only", "chain,nothing"])).toEqual(expect.any(String));
});

test("budgets have some of the real jobs, unless others are named", () => {
  expect(names(["--budgets"])).toContain("real-chains-file");
  expect(names(["--budgets", "--only", "idle"])).toEqual(["idle"]);
});

test("budgets use the small sizes", () => {
  expect(readOptions(["--budgets"])).toMatchObject({ short: true, budgets: true, profile: false });
});

test.each([
  ["file:some/where", "some/where"],
  ["file:///some/where", "/some/where"],
])("the store %s is the directory %s", (store, directory) => {
  expect(readOptions(["--store", store])).toMatchObject({ directory });
});

test("over PostgreSQL there are scenarios of its own", () => {
  expect(names(["--store", "postgres"])).toContain("pg-takeover");
  expect(names(["--store", "postgres", "--only", "pg-idle"])).toEqual(["pg-idle"]);
  expect(readOptions(["--store", "postgres"])).toMatchObject({ postgres: { url: null }, directory: null });
  const url = "postgres://me@there/db";
  expect(readOptions(["--store", url])).toMatchObject({ postgres: { url } });
  expect(readOptions([])).toMatchObject({ postgres: null });
});

test.each([
  [["--only", "nothing"]],
  [["--store", "memory:"]],
  [["--only", "pg-idle"]],
  [["--store", "postgres", "--only", "idle"]],
  [["--what"]],
  [["stray"]],
])("%j is refused in words", (args) => {
  expect(readOptions(args)).toEqual(expect.any(String));
});
