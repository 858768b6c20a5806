// rondo/testing's simulate(): a user's own workflow under seeds.
import { workflow } from "rondo";
import { SimulationFailed, simulate } from "rondo/testing";
import { describe, expect, test } from "vitest";

const copy = workflow({ name: "copy" })
  .phase("list", {
    enumerate: () => [1, 2, 3, 4, 5],
    process: ({ task }) => task * 2,
  })
  .sleep("rest", "1h")
  .phase("sum", { process: ({ idempotencyKey }) => idempotencyKey.length > 0 })
  .returns(async ({ phases }) => {
    let sum = 0;
    for await (const result of phases.list.results()) sum += result;
    return { sum, count: phases.list.count };
  });

describe("simulate", () => {
  test("says that the run without faults failed, and why, instead of comparing others with it", async () => {
    const broken = workflow({ name: "broken" }).phase("load", {
      process: () => {
        throw new Error("no such table");
      },
      retry: { attempts: 2 },
    });
    const thrown = await simulate(broken, { seeds: 3, input: null }).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(SimulationFailed);
    expect(thrown).toMatchObject({
      seed: 0,
      message: expect.stringContaining(
        "the run without faults ended failed in load/load, task 0: task_failed: no such table",
      ),
    });
  });

  test("runs a workflow through crashes and faults, and each run ends as without them", async () => {
    const summary = await simulate(copy, { seeds: 25, input: null });
    expect(summary.runs).toBe(25);
    expect(summary.crashes).toBeGreaterThan(0);
    expect(summary.failedCommits).toBeGreaterThan(0);
    expect(summary.lostReplies).toBeGreaterThan(0);
  });

  test("runs every other seed in a cluster, whose nodes die, stand still and leave", async () => {
    const nodes = new Set<number>();
    const check = (run: { readonly nodes: number; readonly output: unknown }) => {
      nodes.add(run.nodes);
      expect(run.output).toEqual({ sum: 30, count: 5 });
    };
    const summary = await simulate(copy, { seeds: 60, input: null, check });
    expect(summary.clusterRuns).toBe(30);
    expect(nodes).toEqual(new Set([1, 2, 3, 4]));
    expect(summary.pauses).toBeGreaterThan(0);
    expect(summary.leaves).toBeGreaterThan(0);
  });

  test("runs all seeds with so many nodes, or with one", async () => {
    expect((await simulate(copy, { seeds: 4, input: null, nodes: 3 })).clusterRuns).toBe(4);
    expect((await simulate(copy, { seeds: 4, input: null, nodes: 1 })).clusterRuns).toBe(0);
  });

  test("lets a year pass in a cluster, and children be at other nodes", async () => {
    const child = workflow({ name: "child" }).phase("one", { process: () => 1 });
    const yearly = workflow({ name: "yearly" })
      .sleep("rest", "365d")
      .child("many", child, { enumerate: () => [null, null, null, null] });
    const summary = await simulate(yearly, { seeds: [2, 4, 6, 8, 10, 12], input: null });
    expect(summary.clusterRuns).toBe(6);
  });

  test("gives the same history for the same seed", async () => {
    const histories: string[] = [];
    for (let i = 0; i < 2; i++)
      await simulate(copy, {
        seeds: [7, 8, 10, 12],
        input: null,
        check: ({ events }) => void histories.push(JSON.stringify(events)),
      });
    expect(histories.slice(4)).toEqual(histories.slice(0, 4));
  });

  test("finds code that counts what it does twice, and says by which seed", async () => {
    let effects = 0;
    const careless = workflow({ name: "careless" })
      .phase("pay", {
        enumerate: () => [1, 2, 3],
        process: () => {
          effects++;
        },
      })
      .returns(() => effects);
    const check = ({ output }: { output: number | null }) => {
      const paid = output;
      effects = 0;
      if (paid !== 3) throw new Error(`paid ${paid} times instead of 3`);
    };
    const error = await simulate(careless, { seeds: 60, input: null, check }).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(SimulationFailed);
    const { seed, message } = error as SimulationFailed;
    expect(message).toMatch(new RegExp(`^seed ${seed}: paid \\d times instead of 3\n  replay: simulate`));
  });

  test("sends signals that are waited for", async () => {
    const asking = workflow({ name: "asking" })
      .waitFor("approved")
      .returns(({ phases }) => phases.approved.value);
    await simulate(asking, {
      seeds: 8,
      input: null,
      signals: { approved: { by: "me" } },
      check: ({ output }) => expect(output).toEqual({ by: "me" }),
    });
  });

  test("sends a signal before the wait for it times out", async () => {
    const asking = workflow({ name: "asking" })
      .waitFor("approved", { timeout: "2d" })
      .sleep("rest", "3d")
      .waitFor("answer", { timeout: "1h", optional: true })
      .phase("last", { process: ({ waitFor }) => waitFor("third", { timeout: "1h" }) })
      .returns(async ({ phases }) => [phases.approved.value, phases.answer.value, await phases.last.only()]);
    await simulate(asking, {
      seeds: 8,
      input: null,
      signals: { third: 3, answer: 2, approved: 1 },
      check: ({ output }) => expect(output).toEqual([1, 2, 3]),
    });
  });

  test("says why a run does not end", async () => {
    const stuck = workflow({ name: "stuck" }).waitFor("never");
    await expect(simulate(stuck, { seeds: [1], input: null, within: "1d" })).rejects.toThrow(
      /the execution did not end/,
    );
  });
});
