// A parent that was purged and began anew is another to its children, though everything about it has the same name; and
// a letter that comes twice is not a new life (DESIGN 3.1). Found by the simulator.
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { childId } from "../../kernel/tasks/children.ts";

const KID = childId("e1", { phase: "a", visit: 1, handler: "a" }, 0);

/** A parent whose one child waits for a signal. */
function family(): { bench: NodeFixture; begin: () => void } {
  const bench = new NodeFixture();
  bench.plan([{ name: "b", handlers: { b: { waitFor: "go" } } }], "kid");
  const plan = bench.plan([{ name: "a", handlers: { a: { workflow: "kid" } } }]);
  const begin = (): void => {
    bench.start(plan, "e1");
    bench.settle();
  };
  begin();
  return { bench, begin };
}

test("a parent that began anew can cancel a child of its former life", () => {
  const { bench, begin } = family();
  for (let life = 1; life <= 3; life++) {
    expect([bench.status("e1"), bench.status(KID)]).toEqual(["running", "running"]);
    bench.control("cancel", "e1");
    bench.settle();
    expect([bench.status("e1"), bench.status(KID)]).toEqual(["cancelled", "cancelled"]);
    bench.input({ kind: "purge", ids: ["e1"] });
    bench.sleep(10);
    begin();
  }
  expect(bench.events(KID, "retried")).toHaveLength(3);
  bench.signal(KID, "go");
  bench.settle();
  expect([bench.status("e1"), bench.status(KID)]).toEqual(["done", "done"]);
});

test("the start of a child that comes once more does not try it again", () => {
  const { bench } = family();
  const [created] = bench.events(KID, "created");
  bench.control("cancel", "e1");
  bench.settle();
  const { workflow, hash, project, input, tags, parent } = created ?? {};
  const start = { kind: "start", execution: KID, workflow, hash, project, input, tags, parent };
  const letter = { id: "e1/4/0", to: KID, body: JSON.stringify(start), order: 1 };
  bench.input({ kind: "mailbox-scanned", messages: [letter], max: 1_000 });
  bench.settle();
  expect(bench.events(KID, "retried")).toEqual([]);
  expect([bench.status("e1"), bench.status(KID)]).toEqual(["cancelled", "cancelled"]);
});
