import { expect, test } from "vitest";
import { reject } from "../../std/rejection.ts";
import { ExecutionStarter, type StartParts } from "./start-executions.ts";

test("after a fault of one start of a batch no further start is looked at", async () => {
  const wrong = reject("invalid_input", "input: must be a number");
  const looked: string[] = [];
  const parts = {
    definitions: { newest: async () => ({ input: { check: async () => wrong }, plan: { commands: [] } }) },
    topics: { admit: async () => null },
    engine: {
      inspect: async (id: string) => {
        looked.push(id);
        if (id === "e3") throw new Error("the store is away");
        await new Promise(setImmediate);
        return reject("not_found", `there is no execution ${id}`);
      },
    },
  } as unknown as StartParts;
  // No input fits the schema, so each start searches for an earlier execution with its id, which an older definition may have accepted.
  const starts = Array.from({ length: 5_000 }, (_, i) => ({ id: `e${i}`, input: `${i}` }));
  const batch = new ExecutionStarter(parts).startMany(
    { workflow: "w", project: "default" },
    starts,
    (start) => ({ ...start, project: "default", tags: {}, trace: null }),
  );
  await expect(batch).rejects.toThrow("the store is away");
  const atFault = looked.length;
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  expect(looked).toContain("e3");
  expect(looked.length).toBe(atFault);
  expect(atFault).toBeLessThan(starts.length);
});
