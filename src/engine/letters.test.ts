// Children at a node: letters from the sender's commit to the receiver's, whatever fails between (DESIGN 2.5, 3.1, 4).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeBench } from "../../test/conformance/node-bench.ts";
import { phase } from "../../test/scenarios/kernel-run.ts";
import { childId } from "../kernel/children.ts";
import type { Plan } from "../kernel/plan.ts";

const KID = [phase("b")];
const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const family = (n: number, more: object = {}, options: object = {}) => [
  {
    name: "a",
    handlers: { a: { workflow: "kid", tasks: Array.from({ length: n }, (_, i) => i), ...more } },
    ...options,
  },
];
const kid = (task: number, parent = "e1") => childId(parent, { phase: "a", visit: 1, handler: "a" }, task);
const last = (bench: NodeBench) => bench.attempts().at(-1) as Attempt;

/** A bench where the workflow "kid" is stored; a worker serves its code unless it is said otherwise. */
function home(
  n: number,
  more: { handler?: object; kid?: object[]; isServed?: boolean; settings?: object } = {},
): { bench: NodeBench; plan: Plan } {
  const bench = new NodeBench(more.settings ?? {});
  bench.plan(more.kid ?? KID, "kid");
  if (more.isServed !== false) bench.join("w1", ["w.b", "list"], { capacity: 100 });
  return { bench, plan: bench.plan(family(n, more.handler), "w") };
}

/** Everything a family leads to, when nothing goes wrong any more. */
function expectFamilyDone(bench: NodeBench, n: number): void {
  bench.work();
  expect(bench.status("e1")).toBe("done");
  for (let task = 0; task < n; task++) expect([task, bench.status(kid(task))]).toEqual([task, "done"]);
  expect(bench.events("e1", "child.started")).toHaveLength(n);
  expect(bench.events("e1", "child.finished")).toHaveLength(n);
  expect(bench.letters).toEqual([]);
}

describe("a child", () => {
  test("runs with its task as input, and its output is the task's result", () => {
    const bench = new NodeBench();
    bench.plan({ name: "kid", phases: KID, returns: { use: "sum" } });
    bench.join("w1", ["w.b", "sum"]);
    bench.start(bench.plan(family(2)), "e1");
    const seen = bench.work(({ grant }) => (grant.use === "sum" ? { payload: `${grant.input}0` } : {}));
    expect(seen.filter(({ grant }) => grant.use === "w.b").map(({ grant }) => grant.input)).toEqual([
      "0",
      "1",
    ]);
    expect(bench.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual(["00", "10"]);
    expectFamilyDone(bench, 2);
  });

  test("is started only after its parent's commit, and its letter is gone with its own", () => {
    const { bench, plan } = home(1, { isServed: false });
    bench.start(plan, "e1");
    bench.holdsCommits = true;
    bench.settle();
    // The parent itself, then its children.
    bench.commit();
    bench.settle();
    expect(bench.tables.load([kid(0)])).toEqual([null]);
    expect(bench.letters).toEqual([]);
    bench.commit();
    expect(bench.letters).toEqual([`${kid(0)} start`]);
    bench.settle();
    expect(bench.waiting.map(({ content }) => content.lettersTaken?.length)).toEqual([1]);
    bench.commit();
    expect(bench.status(kid(0))).toBe("running");
    expect(bench.letters).toEqual([]);
  });

  test("is of the newest definition of its workflow at the time", () => {
    const { bench, plan } = home(2, { handler: { concurrency: 1 }, isServed: false });
    bench.start(plan, "e1");
    bench.settle();
    const newer = bench.plan([phase("b"), phase("c")], "kid");
    bench.input({ kind: "definition-stored", workflow: "kid" });
    bench.join("w1", ["w.b"], { capacity: 1 });
    bench.work();
    const hashes = [0, 1].map((task) => bench.tables.load([kid(task)])[0]?.head.hash);
    expect(hashes[0]).not.toBe(newer.hash);
    expect(hashes[1]).toBe(newer.hash);
  });

  test("comes from an enumeration too, page by page", () => {
    const bench = new NodeBench();
    bench.plan(KID, "kid");
    bench.join("w1", ["list", "w.b"]);
    bench.start(
      bench.plan([{ name: "a", handlers: { a: { workflow: "kid", enumerate: { use: "list" } } } }]),
      "e1",
    );
    bench.settle();
    const listing = last(bench);
    expect(listing.grant).toMatchObject({ do: "enumerate", use: "list" });
    bench.page(listing, 0, [1, 2]);
    bench.settle();
    expect(bench.status(kid(1))).toBe("running");
    bench.page(listing, 2, [3]);
    bench.settle();
    for (const attempt of bench.attempts().filter(({ grant }) => grant.do === "process"))
      bench.receipt(attempt);
    bench.seal(listing, { total: 3 });
    expectFamilyDone(bench, 3);
  });

  test("beside others of its phase: the phase ends with the last of all", () => {
    const bench = new NodeBench();
    bench.plan(KID, "kid");
    bench.join("w1", ["w.b", "u"]);
    bench.start(bench.plan([{ name: "a", handlers: { a: { workflow: "kid" }, c: { use: "u" } } }]), "e1");
    const seen = bench.work(({ grant }) => (grant.use === "u" ? null : {}));
    expect(bench.status("e1")).toBe("running");
    bench.receipt(seen.find(({ grant }) => grant.use === "u") as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("of a child, to the depth that is allowed", () => {
    const bench = new NodeBench();
    bench.plan([{ name: "a", handlers: { a: { workflow: "kid", retry: { attempts: 1 } } } }], "kid");
    bench.start(
      bench.plan([{ name: "a", handlers: { a: { workflow: "kid", retry: { attempts: 1 } } } }]),
      "e1",
    );
    bench.settle();
    const heads = bench.tables.listHeads({}, { before: null, max: 100 });
    expect(heads).toHaveLength(17);
    expect(new Set(heads.map(({ status }) => status))).toEqual(new Set(["failed"]));
    expect(heads.at(-1)?.error).toContain("child_failed");
    expect(heads[0]?.error).toContain("too_deep");
    expect(bench.letters).toEqual([]);
  });
});

describe("many children", () => {
  test("hold no lease, and their parent no place in memory while it waits for them", () => {
    const { bench, plan } = home(50, { isServed: false, settings: { idleMax: 0 } });
    bench.start(plan, "e1");
    bench.settle();
    expect(bench.tables.load(["e1"])[0]?.head.want).toBe("time");
    expect(bench.node.openLeases).toBe(0);
    bench.join("w1", ["w.b"], { capacity: 7 });
    expectFamilyDone(bench, 50);
    expect(bench.node.residentCount).toBe(0);
  });

  test("are at most as many at a time as the handler says, and start in order", () => {
    const { bench, plan } = home(7, { handler: { concurrency: 3 } });
    bench.start(plan, "e1");
    let most = 0;
    const seen = bench.work(() => {
      const { phases } = bench.inspect("e1").view;
      most = Math.max(most, phases[0]?.handlers[0]?.running ?? 0);
      return {};
    });
    expect(most).toBe(3);
    expect(seen.map(({ grant }) => grant.input)).toEqual(["0", "1", "2", "3", "4", "5", "6"]);
    expectFamilyDone(bench, 7);
  });

  test("start at most at the handler's rate, over all executions", () => {
    const { bench, plan } = home(3, { handler: { rate: { limit: 2, per: "10s" } }, isServed: false });
    for (const id of ["e1", "e2"]) bench.start(plan, id);
    const started = () => ["e1", "e2"].flatMap((id) => bench.events(id, "child.started")).length;
    bench.settle();
    expect(started()).toBe(2);
    expect(bench.inspect("e2").why).toBe('"a" runs 0; 3 more wait 10 s because of the rate of 2 in 10 s.');
    for (const total of [4, 6]) {
      bench.sleep(9_999);
      expect(started()).toBe(total - 2);
      bench.sleep(1);
      expect(started()).toBe(total);
    }
    bench.join("w1", ["w.b"]);
    bench.work();
    expect([bench.status("e1"), bench.status("e2")]).toEqual(["done", "done"]);
  });

  test("more than fit one message, beyond the first page, all come", () => {
    const { bench, plan } = home(1_200, { settings: { windowMax: 64, idleMax: 8, openTasksAhead: 500 } });
    bench.start(plan, "e1");
    expectFamilyDone(bench, 1_200);
  });

  test("come after a restart too, from pages that are not in memory", () => {
    const { bench, plan } = home(1_100, { handler: { concurrency: 100 }, settings: { pageCacheChars: 100 } });
    bench.start(plan, "e1");
    bench.settle();
    bench.restart();
    bench.join("w1", ["w.b"], { capacity: 100 });
    expectFamilyDone(bench, 1_100);
  });
});

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
      expect(bench.waiting[0]?.content.lettersTaken).toHaveLength(2);
      bench[outcome]();
      bench.holdsCommits = false;
      expectFamilyDone(bench, 2);
    },
  );

  test("that a scan under way finds again after it was taken changes nothing", () => {
    const { bench, plan } = home(1, {
      kid: [phase("b", { retry: { attempts: 1 } })],
      handler: { retry: { attempts: 5, backoff: "constant", min: 0 } },
    });
    bench.start(plan, "e1");
    bench.settle();
    bench.holdsCommits = true;
    bench.receipt(last(bench), failed);
    bench.settle();
    bench.commit();
    bench.settle();
    // The child is over: its letter to the parent goes in this commit, and a scan sees it in the store.
    bench.commit();
    expect(bench.letters).toEqual(["e1 child"]);
    bench.held.add("scan-letters");
    bench.start(bench.plan(KID, "other"), "o1");
    bench.settle();
    bench.loseCommit();
    bench.holdsCommits = false;
    bench.settle();
    // By now the parent has taken it, and the child runs again.
    expect(bench.events("e1", "child.started")).toHaveLength(2);
    bench.held.clear();
    bench.answer("scan-letters");
    bench.settle();
    expect(bench.events("e1", "child.finished")).toHaveLength(1);
    bench.receipt(
      bench.attempts().find(({ grant, item }) => grant.execution === kid(0) && item.attempt === 2) as Attempt,
    );
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("written while a scan is under way is not missed by the scan that an unknown outcome asks for", () => {
    const bench = new NodeBench();
    bench.held.add("scan-letters");
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
    bench.answer("scan-letters");
    expectFamilyDone(bench, 1);
  });

  test("to an execution that is not there is gone, without a trace", () => {
    const bench = new NodeBench();
    const message = { kind: "cancel", id: "c1~parent", by: "parent x", reason: null, fromParent: true };
    const letter = { id: "x/1/0", to: "nobody", body: JSON.stringify(message), order: 1 };
    bench.input({ kind: "letters-scanned", letters: [letter], max: 10 });
    bench.settle();
    expect(bench.of("commit").map(({ content }) => [content.writes.length, content.lettersTaken])).toEqual([
      [0, ["x/1/0"]],
    ]);
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
      const bench = new NodeBench();
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
    const list = (bench: NodeBench, ...items: unknown[]) => {
      const listing = bench.attempts().findLast(({ grant }) => grant.do === "enumerate") as Attempt;
      bench.page(listing, 0, items);
      bench.seal(listing, { total: items.length });
      bench.settle();
    };
    const end = (bench: NodeBench, use: string, outcome: Parameters<NodeBench["receipt"]>[1] = {}) => {
      bench.receipt(bench.attempts().findLast(({ grant }) => grant.use === use) as Attempt, outcome);
      bench.settle();
    };
    const grandkid = kid(0, kid(0));
    const forget = (bench: NodeBench) => {
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

describe("control", () => {
  test("pause and resume reach the whole family", () => {
    const bench = new NodeBench();
    bench.plan([{ name: "a", handlers: { a: { workflow: "grandkid" } } }], "kid");
    bench.plan(KID, "grandkid");
    bench.start(bench.plan(family(1)), "e1");
    bench.settle();
    const grandkid = kid(0, kid(0));
    bench.control("pause", "e1");
    bench.settle();
    expect(["e1", kid(0), grandkid].map((id) => bench.status(id))).toEqual(["paused", "paused", "paused"]);
    bench.join("w1", ["w.b"]);
    bench.settle();
    expect(bench.attempts()).toEqual([]);
    bench.control("resume", "e1");
    bench.work();
    expect(["e1", kid(0), grandkid].map((id) => bench.status(id))).toEqual(["done", "done", "done"]);
  });

  test("cancel reaches the whole family, and ends it from the youngest up", () => {
    const bench = new NodeBench({ idleMax: 0 });
    bench.plan([{ name: "a", handlers: { a: { workflow: "grandkid" } } }], "kid");
    bench.plan([{ name: "b", handlers: { b: { waitFor: "go" } } }], "grandkid");
    bench.start(bench.plan(family(1)), "e1");
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    const grandkid = kid(0, kid(0));
    expect(["e1", kid(0), grandkid].map((id) => bench.status(id))).toEqual([
      "cancelled",
      "cancelled",
      "cancelled",
    ]);
    expect(bench.letters).toEqual([]);
    expect(bench.node.residentCount).toBe(0);
  });

  test("a pause that comes while the parent is about to ask for its children loses none of them", () => {
    const { bench, plan } = home(2);
    // The definition of the children is known by then.
    bench.start(plan, "e0");
    bench.work();
    bench.holdsCommits = true;
    bench.start(plan, "e1");
    bench.settle();
    bench.control("pause", "e1");
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.status("e1")).toBe("paused");
    expect(bench.events("e1", "child.started")).toEqual([]);
    bench.control("resume", "e1");
    expectFamilyDone(bench, 2);
  });

  test("a pause reaches children that are being started", () => {
    const { bench, plan } = home(1, { isServed: false });
    bench.holdsCommits = true;
    bench.start(plan, "e1");
    bench.settle();
    bench.commit();
    bench.settle();
    bench.control("pause", "e1");
    bench.holdsCommits = false;
    bench.settle();
    expect([bench.status("e1"), bench.status(kid(0))]).toEqual(["paused", "paused"]);
  });

  test("a child refuses a direct retry, and says whom to ask", () => {
    const { bench, plan } = home(1, { handler: { retry: { attempts: 1 } } });
    bench.start(plan, "e1");
    bench.work(() => failed);
    const request = bench.control("retry", kid(0));
    bench.settle();
    expect(bench.reply(request)).toMatchObject({
      code: "wrong_status",
      hint: "it is a child: retry its parent e1",
    });
  });

  test("a child that is cancelled by itself fails its task at once", () => {
    const { bench, plan } = home(1, { handler: { retry: { attempts: 9 } }, isServed: false });
    bench.start(plan, "e1");
    bench.settle();
    bench.control("cancel", kid(0));
    bench.settle();
    expect([bench.status(kid(0)), bench.status("e1")]).toEqual(["cancelled", "failed"]);
  });
});

describe("a workflow that is not there", () => {
  const missing = (settings: object = {}) => {
    const bench = new NodeBench(settings);
    bench.join("w1", ["w.b"]);
    bench.start(bench.plan(family(2)), "e1");
    bench.settle();
    return bench;
  };

  test("is waited for with a why; nothing spins", () => {
    const bench = missing();
    const before = bench.outputs.length;
    bench.sleep(600_000);
    const asked = bench.outputs.slice(before).map(({ kind }) => kind);
    expect(asked.filter((kind) => kind === "find-workflow" || kind === "commit")).toEqual([]);
    expect(bench.inspect("e1").why).toBe('"a" waits for a workflow: there is none with the name "kid".');
  });

  test("goes on when its definition is stored, also if it was let go of meanwhile", () => {
    for (const settings of [{}, { idleMax: 0 }]) {
      const bench = missing(settings);
      if ("idleMax" in settings) expect(bench.node.residentCount).toBe(0);
      bench.plan(KID, "kid");
      bench.input({ kind: "definition-stored", workflow: "kid" });
      expectFamilyDone(bench, 2);
    }
  });

  test("is asked for again where others may have stored it, now and then", () => {
    const bench = missing();
    const members = { kind: "members", self: "n1", live: ["n1"], epochs: new Map(), reads: 9 } as const;
    bench.input(members);
    bench.settle();
    bench.plan(KID, "kid");
    bench.input(members);
    bench.settle();
    expect(bench.status("e1")).toBe("running");
    bench.sleep(30_000);
    bench.input(members);
    expectFamilyDone(bench, 2);
  });

  test("that is stored while it is looked for is found", () => {
    const bench = new NodeBench();
    bench.held.add("find-workflow");
    bench.join("w1", ["w.b"]);
    bench.start(bench.plan(family(2)), "e1");
    bench.settle();
    bench.plan(KID, "kid");
    bench.input({ kind: "definition-stored", workflow: "kid" });
    bench.settle();
    bench.held.clear();
    bench.answer("find-workflow");
    expectFamilyDone(bench, 2);
  });

  test("does not keep out what has a workflow", () => {
    const bench = new NodeBench({ windowMax: 8, idleMax: 4 });
    const plan = bench.plan(family(1), "waiting");
    for (let i = 0; i < 30; i++) bench.start(plan, `x${i}`);
    bench.settle();
    expect(bench.node.residentCount).toBeLessThanOrEqual(8 + 4);
    bench.join("w1", ["w.b"]);
    for (let i = 0; i < 30; i++) bench.start(bench.plan(KID, "other"), `o${i}`);
    bench.work();
    for (let i = 0; i < 30; i++) expect(bench.status(`o${i}`)).toBe("done");
  });
});
