// How attempts end before their code has: cancelled, or with their worker.
import { describe, expect, test } from "vitest";
import { beatFor, WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { EnumerateContext } from "./handler-code.ts";

const never = () => new Promise<never>(() => {});

describe("cancel", () => {
  test("aborts the signal; the receipt comes when the code has ended, so nothing runs beside what follows", async () => {
    let signal: AbortSignal | undefined;
    let finish: () => void = () => {};
    const fixture = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return new Promise<void>((_, reject) => {
          finish = () => reject(new Error("stopped"));
        });
      },
    });
    const grant = await fixture.give([1]);
    fixture.worker.cancel([beatFor(grant, 0)], "cancel");
    await fixture.clock.settle();
    expect(signal?.aborted).toBe(true);
    expect(fixture.outcomes.size).toBe(0);
    finish();
    await fixture.clock.settle();
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });

  test("of code that ends well all the same reports done", async () => {
    let finish: (value: number) => void = () => {};
    const fixture = new WorkerFixture({
      process: () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    });
    const grant = await fixture.give([1]);
    fixture.worker.cancel([beatFor(grant, 0)], "cancel");
    finish(7);
    await fixture.clock.settle();
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: "7" });
  });

  test("of a lost lease ends the attempt here at once", async () => {
    let signal: AbortSignal | undefined;
    const fixture = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return never();
      },
    });
    const grant = await fixture.give([1]);
    fixture.worker.cancel([beatFor(grant, 0)], "lost");
    await fixture.clock.settle();
    expect(signal?.aborted).toBe(true);
    expect(signal?.reason).toMatchObject({ message: "lease lost" });
  });

  test("of one owner's attempt leaves that of the next owner alone, though they have the same number", async () => {
    const signals: AbortSignal[] = [];
    const ends: (() => void)[] = [];
    const fixture = new WorkerFixture({
      process: ({ signal }) => {
        signals.push(signal);
        return new Promise<void>((resolve) => ends.push(resolve));
      },
    });
    await fixture.give([1], { epoch: 1 });
    const next = await fixture.give([1], { epoch: 2 });
    ends[0]?.();
    await fixture.clock.settle();
    fixture.worker.cancel([beatFor(next, 0)], "cancel");
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
  });

  test("of what has not begun hands it back unrun", async () => {
    const ran: unknown[] = [];
    const fixture = new WorkerFixture(
      {
        process: ({ task }) => {
          ran.push(task);
          return never();
        },
      },
      { concurrency: 1 },
    );
    const grant = await fixture.give([1, 2, 3]);
    fixture.worker.cancel([beatFor(grant, 1, 2)], "cancel");
    await fixture.clock.settle();
    expect(ran).toEqual([1]);
    expect([fixture.outcomes.get(1)?.status, fixture.outcomes.get(2)?.status]).toEqual([
      "cancelled",
      "cancelled",
    ]);
  });

  test("of another round does not touch this one", async () => {
    let signal: AbortSignal | undefined;
    const fixture = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return never();
      },
    });
    const grant = await fixture.give([1], { round: 2 });
    fixture.worker.cancel([{ ...beatFor(grant, 0), round: 1 }], "cancel");
    await fixture.clock.settle();
    expect(signal?.aborted).toBe(false);
  });
});

describe("stop", () => {
  test("gives back what has not begun, waits for what runs, and takes its result", async () => {
    let finish: (value: string) => void = () => {};
    const fixture = new WorkerFixture(
      {
        process: () =>
          new Promise((resolve) => {
            finish = resolve;
          }),
      },
      { concurrency: 1 },
    );
    await fixture.give([1, 2]);
    const stopped = fixture.worker.stop(10_000);
    await fixture.clock.settle();
    expect(fixture.outcomes.get(1)).toMatchObject({ status: "cancelled" });
    finish("ok");
    await stopped;
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done" });
  });

  test("aborts what is still running after its grace", async () => {
    let signal: AbortSignal | undefined;
    const fixture = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return never();
      },
    });
    await fixture.give([1]);
    const stopped = fixture.worker.stop(10_000);
    await fixture.clock.advance("10s");
    await stopped;
    await fixture.clock.settle();
    expect(signal?.aborted).toBe(true);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });

  test("of an idle worker is at once", async () => {
    const fixture = new WorkerFixture({ process: () => 1 });
    await fixture.give([1]);
    await fixture.worker.stop(10_000);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });
});

test("an enumeration within its time leaves no timer behind", async () => {
  const fixture = new WorkerFixture({ enumerate: ({ input }: EnumerateContext) => [input] });
  await fixture.give([], { do: "enumerate", timeoutMs: 3_600_000 });
  expect(fixture.of("enumeration")).toMatchObject([{ outcome: { status: "done", total: 1 } }]);
  expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
});
