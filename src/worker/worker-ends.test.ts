// How attempts end before their code has: cancelled, or with their worker.
import { describe, expect, test } from "vitest";
import { beatFor, WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { EnumerateContext } from "./handler-code.ts";

const never = () => new Promise<never>(() => {});

describe("cancel", () => {
  test("aborts the signal; the receipt comes when the code has ended, so nothing runs beside what follows", async () => {
    let signal: AbortSignal | undefined;
    let finish: () => void = () => {};
    const bench = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return new Promise<void>((_, reject) => {
          finish = () => reject(new Error("stopped"));
        });
      },
    });
    const grant = await bench.give([1]);
    bench.worker.cancel([beatFor(grant, 0)], "cancel");
    await bench.clock.settle();
    expect(signal?.aborted).toBe(true);
    expect(bench.outcomes.size).toBe(0);
    finish();
    await bench.clock.settle();
    expect(bench.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });

  test("of code that ends well all the same reports done", async () => {
    let finish: (value: number) => void = () => {};
    const bench = new WorkerFixture({
      process: () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    });
    const grant = await bench.give([1]);
    bench.worker.cancel([beatFor(grant, 0)], "cancel");
    finish(7);
    await bench.clock.settle();
    expect(bench.outcomes.get(0)).toMatchObject({ status: "done", payload: "7" });
  });

  test("of a lost lease ends the attempt here at once", async () => {
    let signal: AbortSignal | undefined;
    const bench = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return never();
      },
    });
    const grant = await bench.give([1]);
    bench.worker.cancel([beatFor(grant, 0)], "lost");
    await bench.clock.settle();
    expect(signal?.aborted).toBe(true);
    expect(signal?.reason).toMatchObject({ message: "lease lost" });
  });

  test("of one owner's attempt leaves that of the next owner alone, though they have the same number", async () => {
    const signals: AbortSignal[] = [];
    const ends: (() => void)[] = [];
    const bench = new WorkerFixture({
      process: ({ signal }) => {
        signals.push(signal);
        return new Promise<void>((resolve) => ends.push(resolve));
      },
    });
    await bench.give([1], { epoch: 1 });
    const next = await bench.give([1], { epoch: 2 });
    ends[0]?.();
    await bench.clock.settle();
    bench.worker.cancel([beatFor(next, 0)], "cancel");
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
  });

  test("of what has not begun hands it back unrun", async () => {
    const ran: unknown[] = [];
    const bench = new WorkerFixture(
      {
        process: ({ task }) => {
          ran.push(task);
          return never();
        },
      },
      { concurrency: 1 },
    );
    const grant = await bench.give([1, 2, 3]);
    bench.worker.cancel([beatFor(grant, 1, 2)], "cancel");
    await bench.clock.settle();
    expect(ran).toEqual([1]);
    expect([bench.outcomes.get(1)?.status, bench.outcomes.get(2)?.status]).toEqual([
      "cancelled",
      "cancelled",
    ]);
  });

  test("of another round does not touch this one", async () => {
    let signal: AbortSignal | undefined;
    const bench = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return never();
      },
    });
    const grant = await bench.give([1], { round: 2 });
    bench.worker.cancel([{ ...beatFor(grant, 0), round: 1 }], "cancel");
    await bench.clock.settle();
    expect(signal?.aborted).toBe(false);
  });
});

describe("stop", () => {
  test("gives back what has not begun, waits for what runs, and takes its result", async () => {
    let finish: (value: string) => void = () => {};
    const bench = new WorkerFixture(
      {
        process: () =>
          new Promise((resolve) => {
            finish = resolve;
          }),
      },
      { concurrency: 1 },
    );
    await bench.give([1, 2]);
    const stopped = bench.worker.stop(10_000);
    await bench.clock.settle();
    expect(bench.outcomes.get(1)).toMatchObject({ status: "cancelled" });
    finish("ok");
    await stopped;
    expect(bench.outcomes.get(0)).toMatchObject({ status: "done" });
  });

  test("aborts what is still running after its grace", async () => {
    let signal: AbortSignal | undefined;
    const bench = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return never();
      },
    });
    await bench.give([1]);
    const stopped = bench.worker.stop(10_000);
    await bench.clock.advance("10s");
    await stopped;
    await bench.clock.settle();
    expect(signal?.aborted).toBe(true);
    expect(bench.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });

  test("of an idle worker is at once", async () => {
    const bench = new WorkerFixture({ process: () => 1 });
    await bench.give([1]);
    await bench.worker.stop(10_000);
    expect(bench.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });
});

test("an enumeration within its time leaves no timer behind", async () => {
  const bench = new WorkerFixture({ enumerate: ({ input }: EnumerateContext) => [input] });
  await bench.give([], { do: "enumerate", timeoutMs: 3_600_000 });
  expect(bench.of("enumeration")).toMatchObject([{ outcome: { status: "done", total: 1 } }]);
  expect(bench.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
});
