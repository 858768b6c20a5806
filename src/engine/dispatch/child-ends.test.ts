// The end of a child, and what its parent makes of it.
import { describe, expect, test } from "vitest";
import { family, home, kid } from "../../../test/fixtures/engine/family-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;

describe("the end of a child", () => {
  test("failed is tried again by its parent's policy, as the same child in its next round", () => {
    const { bench, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 3, backoff: "constant", min: 10_000 } },
    });
    bench.start(plan, "e1");
    bench.work(() => failed);
    expect(bench.status(kid(0))).toBe("failed");
    expect(bench.status("e1")).toBe("running");
    const [{ untils } = { untils: [0] }] = bench.events("e1", "tasks.retrying");
    bench.sleep((untils[0] as number) - bench.now - 1);
    expect(bench.status(kid(0))).toBe("failed");
    bench.sleep(1);
    expect(bench.status(kid(0))).toBe("running");
    bench.receipt(last(bench));
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    expect(bench.events(kid(0), "retried")).toMatchObject([{ round: 2, by: "parent e1" }]);
  });

  test("failed, and its parent evicted and restarted meanwhile: it is tried again all the same", () => {
    const { bench, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 3, backoff: "constant", min: 10_000 } },
      settings: { idleMax: 0 },
    });
    bench.start(plan, "e1");
    bench.work(() => failed);
    expect(bench.node.residentCount).toBe(0);
    bench.restart();
    bench.join("w1", ["w.b"]);
    bench.sleep(10_000);
    bench.receipt(last(bench));
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("failed, and forgotten before it is tried again: it starts anew", () => {
    const { bench, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 3, backoff: "constant", min: 10_000 } },
    });
    bench.start(plan, "e1");
    bench.work(() => failed);
    bench.input({ kind: "purge", ids: [kid(0)] });
    bench.settle();
    expect(bench.status(kid(0))).toBeUndefined();
    bench.sleep(10_000);
    bench.receipt(last(bench));
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  describe("failed, forgotten, and started anew, where its own child is still there", () => {
    const code = { use: "w.b", retry: { attempts: 1 } };
    /** A child that lists one grandchild and then runs code of its own; its parent tries it three times. */
    const three = (grandkid: object[]) => {
      const bench = new NodeFixture();
      bench.plan(grandkid, "grandkid");
      const lists = { workflow: "grandkid", enumerate: { use: "list" }, retry: { attempts: 1 } };
      bench.plan(
        [
          { name: "a", handlers: { a: lists } },
          { name: "b", handlers: { b: code } },
        ],
        "kid",
      );
      bench.join("w1", ["w.b", "w.g", "list"], { capacity: 10 });
      bench.start(
        bench.plan(family(1, { retry: { attempts: 2, backoff: "constant", min: 1_000, max: 1_000 } })),
        "e1",
      );
      bench.settle();
      return bench;
    };
    const list = (bench: NodeFixture, ...items: unknown[]) => {
      const listing = bench.attempts().findLast(({ grant }) => grant.do === "enumerate") as Attempt;
      bench.page(listing, 0, items);
      bench.seal(listing, { total: items.length });
      bench.settle();
    };
    const end = (bench: NodeFixture, use: string, outcome: Parameters<NodeFixture["receipt"]>[1] = {}) => {
      bench.receipt(bench.attempts().findLast(({ grant }) => grant.use === use) as Attempt, outcome);
      bench.settle();
    };
    const grandkid = kid(0, kid(0));
    const forget = (bench: NodeFixture) => {
      expect([bench.status(kid(0)), bench.status("e1")]).toEqual(["failed", "running"]);
      bench.input({ kind: "purge", ids: [kid(0)] });
      bench.sleep(1_000);
      expect(bench.status(kid(0))).toBe("running");
    };
    const G = [phase("g", { use: "w.g", retry: { attempts: 1 } })];

    test("and done: it says so again", () => {
      const bench = three(G);
      list(bench, 1);
      end(bench, "w.g");
      end(bench, "w.b", failed);
      forget(bench);
      list(bench, 1);
      end(bench, "w.b");
      expect([bench.status(grandkid), bench.status(kid(0)), bench.status("e1")]).toEqual([
        "done",
        "done",
        "done",
      ]);
      expect(bench.attempts().filter(({ grant }) => grant.use === "w.g")).toHaveLength(1);
      expect(bench.letters).toEqual([]);
    });

    test("and failed: it is tried again", () => {
      const bench = three(G);
      list(bench, 1);
      end(bench, "w.g", failed);
      forget(bench);
      list(bench, 1);
      end(bench, "w.g");
      end(bench, "w.b");
      expect([bench.status(grandkid), bench.status(kid(0)), bench.status("e1")]).toEqual([
        "done",
        "done",
        "done",
      ]);
      expect(bench.events(grandkid, "retried")).toHaveLength(1);
    });

    test("and of another input: the task fails, and nothing hangs", () => {
      const bench = three(G);
      list(bench, 1);
      end(bench, "w.g");
      end(bench, "w.b", failed);
      forget(bench);
      list(bench, "another");
      expect([bench.status(grandkid), bench.status(kid(0)), bench.status("e1")]).toEqual([
        "done",
        "failed",
        "failed",
      ]);
      expect(bench.inspect("e1").why).toContain("exists with another input");
    });
  });

  test("for good fails its parent, which tells the others to stop and waits for them", () => {
    const { bench, plan } = home(3, { handler: { retry: { attempts: 1 } } });
    bench.start(plan, "e1");
    const [first, second, third] = bench.work(() => null);
    bench.receipt(first as Attempt, { ...failed, fatal: true });
    bench.settle();
    expect(bench.of("cancel").map(({ attempts }) => attempts[0]?.execution)).toEqual([kid(1), kid(2)]);
    expect(bench.status("e1")).toBe("running");
    bench.receipt(second as Attempt, { status: "cancelled" });
    bench.settle();
    expect([bench.status(kid(1)), bench.status("e1")]).toEqual(["cancelled", "running"]);
    bench.receipt(third as Attempt);
    bench.settle();
    expect([bench.status(kid(2)), bench.status("e1")]).toEqual(["cancelled", "failed"]);
    expect(bench.letters).toEqual([]);
    // The parent's retry reaches what is not done.
    bench.control("retry", "e1");
    bench.work();
    expect([0, 1, 2].map((task) => bench.status(kid(task)))).toEqual(["done", "done", "done"]);
    expect(bench.status("e1")).toBe("done");
    // What was done before stays done.
    expect(bench.events(kid(2), "tasks.settled")).toHaveLength(1);
  });
});
