// A parent that was purged and started again is a different parent for its children, although its id is the same; and
// a letter that comes twice is not a new life (DESIGN 3.1). Found by the simulator.
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { childId } from "../../kernel/tasks/child-messages.ts";

const KID = childId("e1", { phase: "a", visit: 1, handler: "a" }, 0);

/** A parent whose one child waits for a signal. */
function family(): { fixture: NodeFixture; begin: () => void } {
  const fixture = new NodeFixture();
  fixture.plan([{ name: "b", handlers: { b: { waitFor: "go" } } }], "kid");
  const plan = fixture.plan([{ name: "a", handlers: { a: { workflow: "kid" } } }]);
  const begin = (): void => {
    fixture.start(plan, "e1");
    fixture.settle();
  };
  begin();
  return { fixture, begin };
}

test("a parent that began anew can cancel a child of its former life", () => {
  const { fixture, begin } = family();
  for (let life = 1; life <= 3; life++) {
    expect([fixture.status("e1"), fixture.status(KID)]).toEqual(["running", "running"]);
    fixture.control("cancel", "e1");
    fixture.settle();
    expect([fixture.status("e1"), fixture.status(KID)]).toEqual(["cancelled", "cancelled"]);
    fixture.input({ kind: "purge", ids: ["e1"] });
    fixture.sleep(10);
    begin();
  }
  expect(fixture.events(KID, "retried")).toHaveLength(3);
  fixture.signal(KID, "go");
  fixture.settle();
  expect([fixture.status("e1"), fixture.status(KID)]).toEqual(["done", "done"]);
});

test("the start of a child that comes once more does not try it again", () => {
  const { fixture } = family();
  const [created] = fixture.events(KID, "created");
  fixture.control("cancel", "e1");
  fixture.settle();
  const { workflow, hash, project, input, tags, parent } = created ?? {};
  const start = { kind: "start", execution: KID, workflow, hash, project, input, tags, parent };
  const letter = { id: "e1/4/0", to: KID, body: JSON.stringify(start), order: 1 };
  fixture.input({ kind: "mailbox-scanned", messages: [letter], max: 1_000 });
  fixture.settle();
  expect(fixture.events(KID, "retried")).toEqual([]);
  expect([fixture.status("e1"), fixture.status(KID)]).toEqual(["cancelled", "cancelled"]);
});
