// The line that `rondo events` shows for an event.
import { expect, test } from "vitest";
import { eventLine } from "../../src/cli/executions/events.ts";
import { Painter } from "../../src/cli/style.ts";

const line = (fields: Record<string, unknown>): string =>
  eventLine(
    { seq: 7, at: 0, kind: "workflow.tasks.retrying", v: 1, execution: "e", phase: "a", visit: 1, ...fields },
    new Painter(false),
  );

test("an error is its name or code and its message, without the stack", () => {
  const error = { name: "TypeError", message: "no bucket", stack: "TypeError: no bucket\n    at a.ts:1:1" };
  expect(line({ error, count: 1 })).toMatch(/ error="TypeError: no bucket" count=1$/);
  const coded = { code: "E_BOOM", message: "boom", phase: "b", attempt: 2 };
  expect(line({ error: coded })).toMatch(/ error="E_BOOM: boom"$/);
  expect(line({ error: "odd" })).toMatch(/ error=odd$/);
  expect(line({ error: { why: 1 } })).toMatch(/ error=\{"why":1\}$/);
});
