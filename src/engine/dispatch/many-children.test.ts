// Thousands of children: what passes between them and their parent is in the store, not in memory (DESIGN 2.8).
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";

/** Turns until nothing comes out any more; the most that was in memory, and the most letters that a commit had. */
function drive(fixture: NodeFixture): { resident: number; letters: number } {
  const most = { resident: 0, letters: 0 };
  for (;;) {
    const outputs = fixture.advance();
    most.resident = Math.max(most.resident, fixture.node.residentCount);
    for (const output of outputs) {
      if (output.kind !== "commit") continue;
      const sent = output.content.writes.reduce((sum, { mail: letters }) => sum + (letters?.length ?? 0), 0);
      most.letters = Math.max(most.letters, sent);
    }
    if (fixture.waiting.length > 0) fixture.commit();
    else if (outputs.length === 0) return most;
  }
}

test("a parent that is cancelled tells its children bit by bit, and all of them end", () => {
  const n = 4_000;
  const fixture = new NodeFixture({ windowMax: 50, idleMax: 10 });
  fixture.plan([{ name: "b", handlers: { b: { waitFor: "go" } } }], "kid");
  const tasks = Array.from({ length: n }, (_, i) => i);
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { workflow: "kid", tasks } } }], "w"), "e1");
  const started = drive(fixture);
  expect(fixture.events("e1", "child.started")).toHaveLength(n);
  expect(fixture.mail).toEqual([]);
  expect(started.resident).toBeLessThan(2_500);
  fixture.control("cancel", "e1");
  const cancelled = drive(fixture);
  expect(fixture.status("e1")).toBe("cancelled");
  expect(fixture.mail).toEqual([]);
  expect(fixture.events("e1", "child.finished")).toHaveLength(n);
  expect(cancelled.letters).toBeLessThan(2_500);
  expect(cancelled.resident).toBeLessThan(2_500);
});
