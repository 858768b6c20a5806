// The clean-up of an execution over a real engine: compensate, onCancel, onFailure, finally.
import { ExecutionCancelled, ExecutionFailed, Fatal, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";

/** A shop that writes down what it is asked to do. `charge` fails for the amount 13. */
function shop(said: string[]) {
  return workflow({
    name: "shop",
    input: z.object({ amounts: z.array(z.number()) }),
    onCancel: "tell",
    onFailure: "mend",
    finally: "close",
  })
    .phase("reserve", {
      process: ({ input }) => ({ items: input.amounts.length }),
      compensate: ({ result, outcome, task }) =>
        said.push(`release ${outcome} ${result?.items} of ${task.amounts.length}`),
    })
    .phase("charge", {
      enumerate: ({ input }) => input.amounts,
      process: ({ task, idempotencyKey }) => {
        if (task === 13) throw new Fatal("declined");
        return { receipt: `${task} under ${idempotencyKey}` };
      },
      compensate: ({ task, result, outcome, idempotencyKey }) => {
        const isSame = result?.receipt === `${task} under ${idempotencyKey}`;
        said.push(`refund ${task} ${outcome} ${outcome === "done" ? isSame : result}`);
      },
    })
    .waitFor("approved")
    .phase("tell", { process: () => said.push("tell") })
    .phase("mend", { process: () => said.push("mend") })
    .phase("close", { process: () => said.push("close") })
    .returns(({ phases }) => phases.charge.count);
}

describe("an execution that has charged", () => {
  test("refunds when it is cancelled: in reverse order, then onCancel, then finally", async () => {
    const said: string[] = [];
    const order = shop(said);
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, { amounts: [5, 7] });
    await t.settle();
    await execution.cancel({ reason: "changed my mind" });
    await t.settle();
    expect(said.slice(0, 2).sort()).toEqual(["refund 5 done true", "refund 7 done true"]);
    expect(said.slice(2)).toEqual(["release done 2 of 2", "tell", "close"]);
    await expect(execution.result()).rejects.toThrow(ExecutionCancelled);
    const view = await execution.describe();
    expect(view.error).toMatchObject({ code: "cancelled" });
    expect(view.phases.find(({ name }) => name === "charge~compensate")).toMatchObject({ status: "done" });
  });

  test("refunds when its deadline has passed", async () => {
    const said: string[] = [];
    const order = shop(said);
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, { amounts: [5] }, { deadline: t.clock.now() + 60_000 });
    await t.clock.advance("2m");
    expect(said).toEqual(["refund 5 done true", "release done 1 of 1", "tell", "close"]);
    expect((await execution.describe()).error).toMatchObject({ code: "deadline" });
  });

  test("refunds when it fails, also the task that failed, whose outcome is not known", async () => {
    const said: string[] = [];
    const order = shop(said);
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, { amounts: [5, 13] });
    await t.settle();
    expect(said.slice(0, 2).sort()).toEqual(["refund 13 unknown undefined", "refund 5 done true"]);
    expect(said.slice(2)).toEqual(["release done 2 of 2", "mend", "close"]);
    await expect(execution.result()).rejects.toThrow(ExecutionFailed);
  });

  test("only closes when it is done, and keeps its output", async () => {
    const said: string[] = [];
    const order = shop(said);
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, { amounts: [5, 7] });
    await execution.signal("approved", null);
    await t.settle();
    expect(await execution.result()).toBe(2);
    expect(said).toEqual(["close"]);
  });
});

describe("a task that may have begun", () => {
  test("is compensated as unknown after a crash between its effect and its receipt", async () => {
    const said: string[] = [];
    let charges = 0;
    const order = workflow({ name: "once" }).phase("charge", {
      process: async () => {
        charges++;
        await new Promise(() => {});
      },
      compensate: ({ outcome, attempt }) => said.push(`refund ${outcome} in attempt ${attempt}`),
      retry: { attempts: 1, crashes: 1 },
    });
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, null);
    await t.settle();
    expect(charges).toBe(1);
    await t.crash();
    await t.clock.advance("5m");
    expect(await execution.status()).toBe("failed");
    expect(said).toEqual(["refund unknown in attempt 1"]);
  });

  test("and one that was never given out is not compensated", async () => {
    const said: unknown[] = [];
    const order = workflow({ name: "few" }).phase("work", {
      tasks: [0, 1, 2, 3],
      concurrency: 1,
      process: ({ task, waitFor }) => (task === 1 ? waitFor("never") : task),
      compensate: ({ task, outcome }) => said.push([task, outcome]),
    });
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, null);
    await t.settle();
    await execution.pause();
    await execution.cancel();
    await t.settle();
    expect(await execution.status()).toBe("cancelled");
    expect(said).toContainEqual([0, "done"]);
    expect(said).toContainEqual([1, "unknown"]);
  });
});

test("a compensation goes on after a crash, and what is done is not done again", async () => {
  const said: number[] = [];
  let isStuck = true;
  const order = workflow({ name: "stuck" })
    .phase("charge", {
      tasks: [1, 2, 3],
      process: ({ task }) => task * 10,
      compensate: async ({ task, result }) => {
        if (isStuck && task === 3) await new Promise(() => {});
        said.push(result ?? 0);
      },
    })
    .waitFor("never");
  await using t = await testRondo({ workflows: [order] });
  const execution = await t.start(order, null);
  await t.settle();
  await execution.cancel();
  await t.settle();
  expect(await execution.status()).toBe("cleaning");
  expect(new Set(said)).toEqual(new Set([10, 20]));
  isStuck = false;
  await t.crash();
  await t.clock.advance("5m");
  expect(await execution.status()).toBe("cancelled");
  expect(said).toHaveLength(3);
  expect(new Set(said)).toEqual(new Set([10, 20, 30]));
});

test("a child cleans up before its parent does", async () => {
  const said: string[] = [];
  const leg = workflow<{ n: number }>({ name: "leg", finally: "bye" })
    .phase("book", { process: ({ input }) => input.n, compensate: () => said.push("unbook") })
    .waitFor("fly")
    .phase("bye", { process: () => said.push("bye") });
  const trip = workflow({ name: "trip" })
    .phase("pay", { process: () => 1, compensate: () => said.push("repay") })
    .child("legs", leg, { tasks: [{ n: 1 }] });
  await using t = await testRondo({ workflows: [trip, leg] });
  const execution = await t.start(trip, null);
  await t.settle();
  await execution.cancel();
  await t.settle();
  expect(said).toEqual(["unbook", "bye", "repay"]);
  expect(await execution.status()).toBe("cancelled");
});

test("a compensation that fails is tried again by its own options, and is a dead letter at last", async () => {
  const said: string[] = [];
  let isDown = true;
  const order = workflow({ name: "down", finally: "close" })
    .phase("charge", {
      process: () => 1,
      compensate: ({ attempt }) => {
        said.push(`refund ${attempt}`);
        if (isDown) throw new Error("down");
      },
      compensation: { retry: { attempts: 2 } },
    })
    .waitFor("never")
    .phase("close", { process: () => said.push("close") });
  await using t = await testRondo({ workflows: [order] });
  const execution = await t.start(order, null);
  await t.settle();
  await execution.cancel();
  await t.clock.advance("5m");
  expect(said).toEqual(["refund 1", "refund 2", "close"]);
  expect(await execution.status()).toBe("cancelled");
  isDown = false;
  await execution.retry();
  await t.settle();
  expect(said.at(-1)).toBe("refund 3");
  await expect(execution.retry()).rejects.toMatchObject({ code: "wrong_status" });
});
