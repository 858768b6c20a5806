// The end of a child, and what its parent makes of it.
import { describe, expect, test } from "vitest";
import { family, home, kid } from "../../../test/fixtures/engine/family-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;

describe("the end of a child", () => {
  test("failed is tried again by its parent's policy, as the same child in its next round", () => {
    const { fixture, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 3, backoff: "constant", min: 10_000 } },
    });
    fixture.start(plan, "e1");
    fixture.work(() => failed);
    expect(fixture.status(kid(0))).toBe("failed");
    expect(fixture.status("e1")).toBe("running");
    const [{ untils } = { untils: [0] }] = fixture.events("e1", "tasks.retrying");
    fixture.sleep((untils[0] as number) - fixture.now - 1);
    expect(fixture.status(kid(0))).toBe("failed");
    fixture.sleep(1);
    expect(fixture.status(kid(0))).toBe("running");
    fixture.receipt(last(fixture));
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.events(kid(0), "retried")).toMatchObject([{ round: 2, by: "parent e1" }]);
  });

  test("failed, and its parent evicted and restarted meanwhile: it is tried again all the same", () => {
    const { fixture, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 3, backoff: "constant", min: 10_000 } },
      settings: { idleMax: 0 },
    });
    fixture.start(plan, "e1");
    fixture.work(() => failed);
    expect(fixture.node.residentCount).toBe(0);
    fixture.restart();
    fixture.join("w1", ["w.b"]);
    fixture.sleep(10_000);
    fixture.receipt(last(fixture));
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("failed, and forgotten before it is tried again: it starts anew", () => {
    const { fixture, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 3, backoff: "constant", min: 10_000 } },
    });
    fixture.start(plan, "e1");
    fixture.work(() => failed);
    fixture.input({ kind: "purge", ids: [kid(0)] });
    fixture.settle();
    expect(fixture.status(kid(0))).toBeUndefined();
    fixture.sleep(10_000);
    fixture.receipt(last(fixture));
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  describe("failed, forgotten, and started anew, where its own child is still there", () => {
    const code = { use: "w.b", retry: { attempts: 1 } };
    /** A child that lists one grandchild and then runs code of its own; its parent tries it three times. */
    const three = (grandkid: object[]) => {
      const fixture = new NodeFixture();
      fixture.plan(grandkid, "grandkid");
      const lists = { workflow: "grandkid", enumerate: { use: "list" }, retry: { attempts: 1 } };
      fixture.plan(
        [
          { name: "a", handlers: { a: lists } },
          { name: "b", handlers: { b: code } },
        ],
        "kid",
      );
      fixture.join("w1", ["w.b", "w.g", "list"], { capacity: 10 });
      fixture.start(
        fixture.plan(family(1, { retry: { attempts: 2, backoff: "constant", min: 1_000, max: 1_000 } })),
        "e1",
      );
      fixture.settle();
      return fixture;
    };
    const list = (fixture: NodeFixture, ...items: unknown[]) => {
      const listing = fixture.attempts().findLast(({ grant }) => grant.do === "enumerate") as Attempt;
      fixture.page(listing, 0, items);
      fixture.seal(listing, { total: items.length });
      fixture.settle();
    };
    const end = (fixture: NodeFixture, use: string, outcome: Parameters<NodeFixture["receipt"]>[1] = {}) => {
      fixture.receipt(fixture.attempts().findLast(({ grant }) => grant.use === use) as Attempt, outcome);
      fixture.settle();
    };
    const grandkid = kid(0, kid(0));
    const forget = (fixture: NodeFixture) => {
      expect([fixture.status(kid(0)), fixture.status("e1")]).toEqual(["failed", "running"]);
      fixture.input({ kind: "purge", ids: [kid(0)] });
      fixture.sleep(1_000);
      expect(fixture.status(kid(0))).toBe("running");
    };
    const G = [phase("g", { use: "w.g", retry: { attempts: 1 } })];

    test("and done: it says so again", () => {
      const fixture = three(G);
      list(fixture, 1);
      end(fixture, "w.g");
      end(fixture, "w.b", failed);
      forget(fixture);
      list(fixture, 1);
      end(fixture, "w.b");
      expect([fixture.status(grandkid), fixture.status(kid(0)), fixture.status("e1")]).toEqual([
        "done",
        "done",
        "done",
      ]);
      expect(fixture.attempts().filter(({ grant }) => grant.use === "w.g")).toHaveLength(1);
      expect(fixture.mail).toEqual([]);
    });

    test("and failed: it is tried again", () => {
      const fixture = three(G);
      list(fixture, 1);
      end(fixture, "w.g", failed);
      forget(fixture);
      list(fixture, 1);
      end(fixture, "w.g");
      end(fixture, "w.b");
      expect([fixture.status(grandkid), fixture.status(kid(0)), fixture.status("e1")]).toEqual([
        "done",
        "done",
        "done",
      ]);
      expect(fixture.events(grandkid, "retried")).toHaveLength(1);
    });

    test("and of another input: the task fails, and nothing hangs", () => {
      const fixture = three(G);
      list(fixture, 1);
      end(fixture, "w.g");
      end(fixture, "w.b", failed);
      forget(fixture);
      list(fixture, "another");
      expect([fixture.status(grandkid), fixture.status(kid(0)), fixture.status("e1")]).toEqual([
        "done",
        "failed",
        "failed",
      ]);
      expect(fixture.inspect("e1").why).toContain("exists with another input");
    });
  });

  test("for good fails its parent, which tells the others to stop and waits for them", () => {
    const { fixture, plan } = home(3, { handler: { retry: { attempts: 1 } } });
    fixture.start(plan, "e1");
    const [first, second, third] = fixture.work(() => null);
    fixture.receipt(first as Attempt, { ...failed, fatal: true });
    fixture.settle();
    expect(fixture.of("cancel").map(({ attempts }) => attempts[0]?.execution)).toEqual([kid(1), kid(2)]);
    expect(fixture.status("e1")).toBe("running");
    fixture.receipt(second as Attempt, { status: "cancelled" });
    fixture.settle();
    expect([fixture.status(kid(1)), fixture.status("e1")]).toEqual(["cancelled", "running"]);
    fixture.receipt(third as Attempt);
    fixture.settle();
    expect([fixture.status(kid(2)), fixture.status("e1")]).toEqual(["cancelled", "failed"]);
    expect(fixture.mail).toEqual([]);
    // The retry of the parent also retries the children that are not done.
    fixture.control("retry", "e1");
    fixture.work();
    expect([0, 1, 2].map((task) => fixture.status(kid(task)))).toEqual(["done", "done", "done"]);
    expect(fixture.status("e1")).toBe("done");
    // Tasks of the child that were done before do not run again.
    expect(fixture.events(kid(2), "tasks.settled")).toHaveLength(1);
  });
});
