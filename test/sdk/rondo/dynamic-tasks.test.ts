// Tasks that add tasks, and tasks that wait for tasks, as workflows in code over a real engine.
import { ExecutionFailed, flow, workflow } from "rondo";
import { simulate, testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";

/** A web of pages with cycles: each page links to three others. */
const linksOf = (page: number, pages: number) =>
  [page * 2 + 1, page * 2 + 2, Math.floor(page / 3)].map((link) => link % pages);

const crawler = (pages: number, fails = (_: string, __: number) => false) =>
  workflow<{ start: string }>({ name: "crawler" })
    .phase("crawl", {
      enumerate: ({ input }) => [input.start],
      identity: (url) => url,
      adds: true,
      process: ({ task: url, add, attempt }) => {
        add(...linksOf(Number(url.slice(2)), pages).map((link) => `p/${link}`));
        if (fails(url, attempt)) throw new Error("not reachable");
        return url;
      },
    })
    .returns(({ phases }) => phases.crawl.count);

interface Node {
  readonly name: string;
  readonly after: readonly string[];
}

const node = (name: string, ...after: string[]): Node => ({ name, after });

/** A graph in one phase. `ran` gets the names in the order in which they ran; those in `fails` throw. */
const graph = (nodes: readonly Node[], ran: string[], { tolerate = 0, fails = new Set<string>() } = {}) =>
  workflow<null>({ name: "graph" })
    .phase("build", {
      enumerate: () => nodes,
      identity: ({ name }) => name,
      after: ({ after }) => after,
      tolerate,
      retry: { attempts: 1 },
      process: ({ task: { name } }) => {
        if (fails.has(name)) throw new Error(`${name} is broken`);
        ran.push(name);
        return name;
      },
    })
    .returns(async ({ phases }) => {
      const failures: string[] = [];
      for await (const { data, error } of phases.build.failures())
        failures.push(`${(data as Node).name}: ${error.message}`);
      return failures;
    });

describe("a task that adds tasks", () => {
  test("counts each page of a web with cycles once, though attempts fail", async () => {
    const flow = crawler(200, (url, attempt) => attempt === 1 && url.endsWith("7"));
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, { start: "p/0" });
    await t.clock.advance("10m");
    expect(await execution.result()).toBe(200);
    const [crawl] = (await execution.describe()).phases;
    expect(crawl?.handlers[0]).toMatchObject({ total: 200, done: 200, failed: 0, sealed: true });
  });

  test("adds nothing in attempts that fail, and goes on after crashes", async () => {
    const flow = crawler(300);
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, { start: "p/0" });
    for (let i = 0; i < 3; i++) {
      await t.crash();
      await t.clock.advance("2m");
    }
    expect(await t.execution(execution.id).result()).toBe(300);
  });

  test("must say so", async () => {
    const flow = workflow({ name: "silent" }).phase("a", {
      tasks: [1],
      process: ({ add }) => add(2),
    });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    await expect(execution.result()).rejects.toThrow(/give it adds: true/);
  });

  test("adds at most 10,000 tasks in an attempt", async () => {
    const flow = workflow({ name: "many" }).phase("a", {
      tasks: [0],
      adds: true,
      process: ({ task, add }) => {
        if (task === 0) for (let i = 1; i <= 10_001; i++) add(i);
      },
    });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    const failed = await execution.result().catch((thrown: unknown) => thrown as ExecutionFailed);
    expect(failed).toBeInstanceOf(ExecutionFailed);
    expect(String(failed)).toMatch(/at most 10,000 tasks/);
    expect((await execution.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 1, failed: 1 });
  });

  test("is judged by a percentage when no task can add another one any more", async () => {
    const flow = workflow({ name: "share" })
      .phase("a", {
        tasks: [0],
        adds: true,
        tolerate: "50%",
        retry: { attempts: 1 },
        process: ({ task, add }) => {
          if (task === 0) add(1, 2, 3);
          if (task === 1) throw new Error("no");
          return task;
        },
      })
      .returns(({ phases }) => phases.a.failed);
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    expect(await execution.result()).toBe(1);
  });
});

describe("a task that waits for tasks", () => {
  test("begins when the last of its dependencies is done", async () => {
    const ran: string[] = [];
    const nodes = [node("d", "b", "c"), node("b", "a"), node("c", "a"), node("a"), node("e", "d", "a")];
    const flow = graph(nodes, ran);
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    expect(await execution.result()).toEqual([]);
    expect(ran).toEqual(["a", "b", "c", "d", "e"]);
  });

  test("fails if one of them has failed, and so do the tasks after it", async () => {
    const ran: string[] = [];
    const nodes = [node("a"), node("b", "a"), node("c", "b"), node("d")];
    const flow = graph(nodes, ran, { tolerate: 3, fails: new Set(["a"]) });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    expect(await execution.result()).toEqual([
      "a: a is broken",
      'b: dependency_failed: waits for the task "a", which failed or does not run in this round',
      'c: dependency_failed: waits for the task "b", which failed or does not run in this round',
    ]);
    expect(ran).toEqual(["d"]);
  });

  test("fails with the name of a task that nobody has added, once nothing else can run", async () => {
    const ran: string[] = [];
    const flow = graph([node("a"), node("b", "x", "a"), node("c", "a")], ran);
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    await expect(execution.result()).rejects.toThrow(
      'unknown_dependency: waits for the task "x", which was never added',
    );
    expect(ran).toEqual(["a", "c"]);
  });

  test("fails with the path of a cycle", async () => {
    const ran: string[] = [];
    const nodes = [node("a", "b"), node("b", "c", "z"), node("c", "a"), node("d", "a"), node("z")];
    const flow = graph(nodes, ran, { tolerate: 9 });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    expect(await execution.result()).toEqual([
      "a: dependency_cycle: a -> b -> c -> a",
      "b: dependency_cycle: a -> b -> c -> a",
      "c: dependency_cycle: a -> b -> c -> a",
      'd: dependency_failed: waits for the task "a", which failed or does not run in this round',
    ]);
    expect(ran).toEqual(["z"]);
  });

  test("says what it waits for", async () => {
    const ran: string[] = [];
    let open: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const flow = workflow<null>({ name: "gated" }).phase("build", {
      tasks: [node("b", "a"), node("a"), node("c", "b")],
      identity: "/name",
      after: "/after",
      process: async ({ task: { name } }) => {
        if (name === "a") await gate;
        ran.push(name);
      },
    });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.settle();
    expect(await execution.why()).toBe(
      '"build" runs 1 of 3 open tasks. 2 tasks wait for other tasks, such as task 0 for the task "a", which runs.',
    );
    expect((await execution.describe()).phases[0]?.handlers[0]).toMatchObject({ running: 1, waiting: 2 });
    open();
    await t.clock.advance("1m");
    await execution.result();
    expect(ran).toEqual(["a", "b", "c"]);
  });

  test.each([
    ["sleep", '"build" waits: 1 task sleeps for another ', "sleeps"],
    ["signal", '"build" waits: 1 task waits for a signal, such as "go". ', 'waits for the signal "go"'],
    ["child", '"build" waits: 1 task waits for a child, such as ', "waits for a child"],
    ["fail", ": 1 task failed before ", "failed before and is tried again in "],
    ["missing", "", "no task has added yet"],
  ])("says in `why` what the task does for which others wait: %s", async (what, before, end) => {
    const slow = flow("slow", ({ waitFor }) => waitFor("never"));
    const first =
      what === "missing" ? [node("a"), node("b", "x")] : [node("a"), node("b", "a"), node("c", "b")];
    const waits = workflow<null>({ name: "waits", children: [slow] }).phase("build", {
      tasks: first,
      identity: "/name",
      after: "/after",
      retry: { min: "10m" },
      process: async ({ sleep, waitFor, run }) => {
        if (what === "sleep" || what === "missing") await sleep("a while", "1h");
        if (what === "signal") await waitFor("go");
        if (what === "child") await run(slow, null);
        if (what === "fail") throw new Error("not yet");
      },
    });
    await using t = await testRondo({ workflows: [waits] });
    const execution = await t.start(waits, null);
    await t.settle();
    const why = await execution.why();
    expect(why).toContain(before);
    expect(why).toContain(
      what === "missing"
        ? `Task 1 waits for the task "x", which ${end}`
        : `2 tasks wait for other tasks, such as task 1 for the task "a", which ${end}`,
    );
  });

  test("runs again after the failed task that it waited for", async () => {
    const ran: string[] = [];
    const fails = new Set(["a"]);
    const flow = graph([node("a"), node("b", "a"), node("c", "b"), node("d")], ran, { tolerate: 3, fails });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    expect(await execution.result()).toHaveLength(3);
    fails.clear();
    expect(await execution.retryTasks({ phase: "build", numbers: [0] })).toEqual({ tasks: 3, skipped: [] });
    await t.clock.advance("1m");
    expect(await execution.result()).toEqual([]);
    expect(ran).toEqual(["d", "a", "b", "c"]);
  });

  test("waits again in the next round of a failed execution", async () => {
    const ran: string[] = [];
    const fails = new Set(["b"]);
    const flow = graph([node("c", "b"), node("b", "a"), node("a")], ran, { fails });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    await expect(execution.result()).rejects.toThrow("b is broken");
    fails.clear();
    await execution.retry();
    await t.crash();
    await t.clock.advance("1m");
    expect(await t.execution(execution.id).result()).toEqual([]);
    expect(ran).toEqual(["a", "b", "c"]);
  });

  test("can be added by a task that is under way", async () => {
    const ran: string[] = [];
    const flow = workflow<null>({ name: "grows" }).phase("build", {
      enumerate: () => [node("last", "a", "b"), node("first")],
      identity: ({ name }) => name,
      after: ({ after }) => after,
      adds: true,
      process: ({ task: { name }, add }) => {
        ran.push(name);
        if (name === "first") add(node("b", "a"), node("a"), node("last"));
      },
    });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1m");
    await execution.result();
    expect(ran).toEqual(["first", "a", "b", "last"]);
  });
});

describe("under the faults of simulate", () => {
  test("every page of a crawl is counted once", async () => {
    const { runs } = await simulate(crawler(40), {
      seeds: 6,
      input: { start: "p/0" },
      check: ({ output }) => expect(output).toBe(40),
    });
    expect(runs).toBe(6);
  });

  test("no task of a graph begins before those that it waits for are done", async () => {
    const nodes = [node("d", "b", "c"), node("c", "a"), node("b", "a"), node("a")];
    const graph = workflow<{ nodes: readonly Node[] }>({ name: "graph" })
      .phase("build", {
        enumerate: ({ input }) => input.nodes,
        identity: ({ name }) => name,
        after: ({ after }) => after,
        process: ({ task }) => task.name,
      })
      .returns(({ phases }) => phases.build.toArray({ max: 10 }));
    const { runs } = await simulate(graph, {
      seeds: 6,
      input: { nodes },
      check: ({ output }) => {
        expect([output?.at(0), output?.at(-1)]).toEqual(["a", "d"]);
        expect(output?.toSorted()).toEqual(["a", "b", "c", "d"]);
      },
    });
    expect(runs).toBe(6);
  });
});
