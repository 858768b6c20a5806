// The version of events that nodes must read before they get a definition: newer fields need a newer one.
import { expect, test } from "vitest";
import { unwrap } from "../../std/rejection.ts";
import { parseDefinition } from "./parse-definition.ts";
import { compilePlan } from "./plan.ts";

const among = ["a"];

test.each([
  ["a plain definition", {}, {}, 1],
  ["next and returns without options", { next: { use: "n", among } }, { returns: { use: "r" } }, 1],
  ["options of next", { next: { use: "n", among, timeout: "1s" } }, {}, 5],
  ["options of returns", {}, { returns: { use: "r", retry: { crashes: 9 } } }, 5],
  ["unread", {}, { unread: { go: "a" } }, 5],
  ["compensate", { handlers: { a: { use: "a", compensate: { use: "u" } } } }, {}, 5],
])("%s", (_what, phase, more, version) => {
  const definition = { name: "w", phases: [{ name: "a", handlers: { a: { use: "a" } }, ...phase }], ...more };
  expect(compilePlan(unwrap(parseDefinition(definition))).version).toBe(version);
});
