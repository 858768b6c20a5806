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

test("budgets use the small sizes", () => {
  expect(readOptions(["--budgets"])).toMatchObject({ short: true, budgets: true, profile: false });
});

test.each([
  ["file:some/where", "some/where"],
  ["file:///some/where", "/some/where"],
])("the store %s is the directory %s", (store, directory) => {
  expect(readOptions(["--store", store])).toMatchObject({ directory });
});

test.each([[["--only", "nothing"]], [["--store", "memory:"]], [["--what"]], [["stray"]]])(
  "%j is refused in words",
  (args) => {
    expect(readOptions(args)).toEqual(expect.any(String));
  },
);
