// Children at a node: letters from the sender's commit to the receiver's, whatever fails between (DESIGN 2.5, 3.1, 4).
import { describe, expect, test } from "vitest";
import { expectFamilyDone, family, home, KID, kid } from "../../../test/fixtures/engine/family-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;

/** A child has failed. Its end is in the store, and the commit of its parent, which starts it again, waits. */
function endedChild(): NodeFixture {
  const { bench, plan } = home(1, {
    kid: [phase("b", { retry: { attempts: 1 } })],
    handler: { retry: { attempts: 5, backoff: "constant", min: 0 } },
  });
  bench.start(plan, "e1");
  bench.settle();
  bench.holdsCommits = true;
  bench.receipt(last(bench), failed);
  bench.settle();
  while (bench.letters.length === 0) {
    bench.commit();
    bench.settle();
  }
  expect(bench.letters).toEqual(["e1 child"]);
  expect(bench.waiting.map(({ content }) => content.mailTaken?.length)).toEqual([1]);
  return bench;
}

/** The second attempt is under way, and ends. */
function expectChildDoneAgain(bench: NodeFixture): void {
  expect(bench.events("e1", "child.finished")).toHaveLength(1);
  expect(bench.events("e1", "child.started")).toHaveLength(2);
  bench.receipt(
    bench.attempts().find(({ grant, item }) => grant.execution === kid(0) && item.attempt === 2) as Attempt,
  );
  bench.settle();
  expect([bench.status("e1"), bench.status(kid(0))]).toEqual(["done", "done"]);
  expect(bench.letters).toEqual([]);
}

describe("a letter", () => {
  test("in the store when the process died is delivered by the next one", () => {
    for (const clean of [true, false]) {
      const { bench, plan } = home(3, { isServed: false });
      bench.start(plan, "e1");
      bench.holdsCommits = true;
      bench.settle();
      bench.commit();
      bench.settle();
      bench.commit();
      expect(bench.letters).toHaveLength(3);
      bench.holdsCommits = false;
      bench.restart({ clean });
      bench.join("w1", ["w.b"]);
      expectFamilyDone(bench, 3);
    }
  });

  test.each(["loseCommit", "commitUnheard"] as const)(
    "survives a commit of the sender whose outcome is not known: %s",
    (outcome) => {
      const { bench, plan } = home(2);
      bench.start(plan, "e1");
      bench.holdsCommits = true;
      bench.settle();
      bench.commit();
      bench.settle();
      // The children's starts are in this one.
      bench[outcome]();
      bench.holdsCommits = false;
      expectFamilyDone(bench, 2);
    },
  );

  test.each(["loseCommit", "commitUnheard"] as const)(
    "survives a commit of the receiver whose outcome is not known: %s",
    (outcome) => {
      const { bench, plan } = home(2);
      bench.start(plan, "e1");
      bench.holdsCommits = true;
      bench.settle();
      for (let i = 0; i < 2; i++) {
        bench.commit();
        bench.settle();
      }
      expect(bench.waiting[0]?.content.mailTaken).toHaveLength(2);
      bench[outcome]();
      bench.holdsCommits = false;
      expectFamilyDone(bench, 2);
    },
  );

  test.each(["commit", "commitUnheard"] as const)(
    "that a scan under way finds again after it was taken changes nothing: %s",
    (outcome) => {
      const bench = endedChild();
      bench.held.add("scan-mailbox");
      bench.input({ kind: "mail-stored" });
      bench.settle();
      expect(bench.heldReads).toBe(1);
      bench[outcome]();
      bench.holdsCommits = false;
      bench.settle();
      // By now the parent has taken it, and the child runs again.
      expect(bench.letters).toEqual([`${kid(0)} start`, `${kid(0)} retry`]);
      expect(bench.events("e1", "child.started")).toHaveLength(2);
      bench.held.clear();
      bench.answer("scan-mailbox");
      bench.settle();
      expectChildDoneAgain(bench);
    },
  );

  test("that two commits of unknown outcome took is not applied to the next attempt", () => {
    const bench = endedChild();
    // The end of the child goes with this commit, the next start of the child with the one after it.
    bench.commitUnheard();
    bench.settle();
    expect(bench.letters).toEqual([]);
    bench.commitUnheard();
    bench.holdsCommits = false;
    bench.settle();
    expectChildDoneAgain(bench);
  });

  test("written while a scan is under way is not missed by the scan that an unknown outcome asks for", () => {
    const bench = new NodeFixture();
    bench.held.add("scan-mailbox");
    bench.restart();
    bench.plan(KID, "kid");
    bench.join("w1", ["w.b"]);
    bench.start(bench.plan(family(1)), "e1");
    bench.holdsCommits = true;
    bench.settle();
    bench.commit();
    bench.settle();
    bench.commitUnheard();
    bench.holdsCommits = false;
    bench.settle();
    bench.held.clear();
    // The first scan was made when there was no letter.
    bench.answer("scan-mailbox");
    expectFamilyDone(bench, 1);
  });

  test("to an execution that is not there is taken out, and reported as undelivered", () => {
    const bench = new NodeFixture();
    const message = { kind: "cancel", id: "c1~parent", by: "parent x", reason: null, fromParent: true };
    const letter = { id: "x/1/0", to: "nobody", body: JSON.stringify(message), order: 1 };
    bench.input({ kind: "mailbox-scanned", messages: [letter], max: 10 });
    bench.settle();
    expect(bench.of("commit").map(({ content }) => [content.writes.length, content.mailTaken])).toEqual([
      [0, ["x/1/0"]],
    ]);
    expect(bench.of("undelivered")).toMatchObject([{ id: "x/1/0", to: "nobody", message }]);
    expect(bench.status("nobody")).toBeUndefined();
    expect(bench.node.residentCount).toBe(0);
  });

  test("that changed nothing goes with a commit of its own, and comes again if that one is lost", () => {
    for (const outcome of ["loseCommit", "commitUnheard"] as const) {
      const { bench, plan } = home(1);
      bench.start(plan, "e1");
      bench.settle();
      bench.holdsCommits = true;
      // The child ends while its parent's pause is on its way to it.
      bench.receipt(last(bench));
      bench.control("pause", "e1");
      bench.settle();
      while (bench.waiting.length > 0 && bench.waiting[0]?.content.writes.length !== 0) {
        bench.commit();
        bench.settle();
      }
      expect(bench.waiting).toHaveLength(1);
      bench[outcome]();
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.letters).toEqual([]);
      expect(bench.status("e1")).toBe("done");
    }
  });

  test("of a cancel never overtakes the start, though the start waits for its definition", () => {
    const { bench, plan } = home(1, { kid: [{ name: "b", handlers: { b: { waitFor: "go" } } }] });
    bench.start(plan, "e1");
    bench.holdsCommits = true;
    bench.settle();
    bench.commit();
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    bench.commit();
    bench.settle();
    // The start of the child and the cancel of its parent are under way; the child's start is not committed.
    while (!bench.letters.includes(`${kid(0)} cancel`)) {
      const { content } = bench.waiting[0] as { content: { writes: readonly { execution: string }[] } };
      if (content.writes.some(({ execution }) => execution === kid(0))) bench.loseCommit();
      else bench.commit();
      bench.settle();
    }
    expect(bench.letters).toEqual([`${kid(0)} start`, `${kid(0)} cancel`]);
    bench.holdsCommits = false;
    bench.held.add("get-definition");
    bench.restart();
    bench.held.clear();
    while (bench.heldReads > 0) {
      bench.answer("get-definition");
      bench.settle();
    }
    expect(bench.status("e1")).toBe("cancelled");
    expect(bench.status(kid(0))).toBe("cancelled");
    expect(bench.letters).toEqual([]);
  });
});
