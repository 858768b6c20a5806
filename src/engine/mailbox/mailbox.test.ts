// Children at a node: letters from the sender's commit to the receiver's, whatever fails between (DESIGN 2.5, 3.1, 4).
import { describe, expect, test } from "vitest";
import { expectFamilyDone, family, home, KID, kid } from "../../../test/fixtures/engine/family-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;

/** A child has failed. Its end is in the store, and the commit of its parent, which starts it again, waits. */
function endedChild(): NodeFixture {
  const { fixture, plan } = home(1, {
    kid: [phase("b", { retry: { attempts: 1 } })],
    handler: { retry: { attempts: 5, backoff: "constant", min: 0 } },
  });
  fixture.start(plan, "e1");
  fixture.settle();
  fixture.holdsCommits = true;
  fixture.receipt(last(fixture), failed);
  fixture.settle();
  while (fixture.mail.length === 0) {
    fixture.commit();
    fixture.settle();
  }
  expect(fixture.mail).toEqual(["e1 child"]);
  expect(fixture.waiting.map(({ content }) => content.mailTaken?.length)).toEqual([1]);
  return fixture;
}

/** The second attempt is under way, and ends. */
function expectChildDoneAgain(fixture: NodeFixture): void {
  expect(fixture.events("e1", "child.finished")).toHaveLength(1);
  expect(fixture.events("e1", "child.started")).toHaveLength(2);
  fixture.receipt(
    fixture.attempts().find(({ grant, item }) => grant.execution === kid(0) && item.attempt === 2) as Attempt,
  );
  fixture.settle();
  expect([fixture.status("e1"), fixture.status(kid(0))]).toEqual(["done", "done"]);
  expect(fixture.mail).toEqual([]);
}

describe("a letter", () => {
  test("in the store when the process died is delivered by the next one", () => {
    for (const clean of [true, false]) {
      const { fixture, plan } = home(3, { isServed: false });
      fixture.start(plan, "e1");
      fixture.holdsCommits = true;
      fixture.settle();
      fixture.commit();
      fixture.settle();
      fixture.commit();
      expect(fixture.mail).toHaveLength(3);
      fixture.holdsCommits = false;
      fixture.restart({ clean });
      fixture.join("w1", ["w.b"]);
      expectFamilyDone(fixture, 3);
    }
  });

  test.each(["loseCommit", "commitUnheard"] as const)(
    "survives a commit of the sender whose outcome is not known: %s",
    (outcome) => {
      const { fixture, plan } = home(2);
      fixture.start(plan, "e1");
      fixture.holdsCommits = true;
      fixture.settle();
      fixture.commit();
      fixture.settle();
      // The children's starts are in this one.
      fixture[outcome]();
      fixture.holdsCommits = false;
      expectFamilyDone(fixture, 2);
    },
  );

  test.each(["loseCommit", "commitUnheard"] as const)(
    "survives a commit of the receiver whose outcome is not known: %s",
    (outcome) => {
      const { fixture, plan } = home(2);
      fixture.start(plan, "e1");
      fixture.holdsCommits = true;
      fixture.settle();
      for (let i = 0; i < 2; i++) {
        fixture.commit();
        fixture.settle();
      }
      expect(fixture.waiting[0]?.content.mailTaken).toHaveLength(2);
      fixture[outcome]();
      fixture.holdsCommits = false;
      expectFamilyDone(fixture, 2);
    },
  );

  test.each(["commit", "commitUnheard"] as const)(
    "that a scan under way finds again after it was taken changes nothing: %s",
    (outcome) => {
      const fixture = endedChild();
      fixture.held.add("scan-mailbox");
      fixture.input({ kind: "mail-stored" });
      fixture.settle();
      expect(fixture.heldReads).toBe(1);
      fixture[outcome]();
      fixture.holdsCommits = false;
      fixture.settle();
      // By now the parent has taken it, and the child runs again.
      expect(fixture.mail).toEqual([`${kid(0)} start`, `${kid(0)} retry`]);
      expect(fixture.events("e1", "child.started")).toHaveLength(2);
      fixture.held.clear();
      fixture.answer("scan-mailbox");
      fixture.settle();
      expectChildDoneAgain(fixture);
    },
  );

  test("that two commits of unknown outcome took is not applied to the next attempt", () => {
    const fixture = endedChild();
    // The end of the child goes with this commit, the next start of the child with the one after it.
    fixture.commitUnheard();
    fixture.settle();
    expect(fixture.mail).toEqual([]);
    fixture.commitUnheard();
    fixture.holdsCommits = false;
    fixture.settle();
    expectChildDoneAgain(fixture);
  });

  test("written while a scan is under way is not missed by the scan that an unknown outcome asks for", () => {
    const fixture = new NodeFixture();
    fixture.held.add("scan-mailbox");
    fixture.restart();
    fixture.plan(KID, "kid");
    fixture.join("w1", ["w.b"]);
    fixture.start(fixture.plan(family(1)), "e1");
    fixture.holdsCommits = true;
    fixture.settle();
    fixture.commit();
    fixture.settle();
    fixture.commitUnheard();
    fixture.holdsCommits = false;
    fixture.settle();
    fixture.held.clear();
    // The first scan was made when there was no letter.
    fixture.answer("scan-mailbox");
    expectFamilyDone(fixture, 1);
  });

  test("to an execution that is not there is taken out, and reported as undelivered", () => {
    const fixture = new NodeFixture();
    const message = { kind: "cancel", id: "c1~parent", by: "parent x", reason: null, fromParent: true };
    const letter = { id: "x/1/0", to: "nobody", body: JSON.stringify(message), order: 1 };
    fixture.input({ kind: "mailbox-scanned", messages: [letter], max: 10 });
    fixture.settle();
    expect(fixture.of("commit").map(({ content }) => [content.writes.length, content.mailTaken])).toEqual([
      [0, ["x/1/0"]],
    ]);
    expect(fixture.of("undelivered")).toMatchObject([{ id: "x/1/0", to: "nobody", message }]);
    expect(fixture.status("nobody")).toBeUndefined();
    expect(fixture.node.residentCount).toBe(0);
  });

  test("that changed nothing goes with a commit of its own, and comes again if that one is lost", () => {
    for (const outcome of ["loseCommit", "commitUnheard"] as const) {
      const { fixture, plan } = home(1);
      fixture.start(plan, "e1");
      fixture.settle();
      fixture.holdsCommits = true;
      // The child ends while its parent's pause is on its way to it.
      fixture.receipt(last(fixture));
      fixture.control("pause", "e1");
      fixture.settle();
      while (fixture.waiting.length > 0 && fixture.waiting[0]?.content.writes.length !== 0) {
        fixture.commit();
        fixture.settle();
      }
      expect(fixture.waiting).toHaveLength(1);
      fixture[outcome]();
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.mail).toEqual([]);
      expect(fixture.status("e1")).toBe("done");
    }
  });

  test("of a cancel never overtakes the start, though the start waits for its definition", () => {
    const { fixture, plan } = home(1, { kid: [{ name: "b", handlers: { b: { waitFor: "go" } } }] });
    fixture.start(plan, "e1");
    fixture.holdsCommits = true;
    fixture.settle();
    fixture.commit();
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    fixture.commit();
    fixture.settle();
    // The start of the child and the cancel of its parent are under way; the child's start is not committed.
    while (!fixture.mail.includes(`${kid(0)} cancel`)) {
      const { content } = fixture.waiting[0] as { content: { writes: readonly { execution: string }[] } };
      if (content.writes.some(({ execution }) => execution === kid(0))) fixture.loseCommit();
      else fixture.commit();
      fixture.settle();
    }
    expect(fixture.mail).toEqual([`${kid(0)} start`, `${kid(0)} cancel`]);
    fixture.holdsCommits = false;
    fixture.held.add("get-definition");
    fixture.restart();
    fixture.held.clear();
    while (fixture.heldReads > 0) {
      fixture.answer("get-definition");
      fixture.settle();
    }
    expect(fixture.status("e1")).toBe("cancelled");
    expect(fixture.status(kid(0))).toBe("cancelled");
    expect(fixture.mail).toEqual([]);
  });
});
