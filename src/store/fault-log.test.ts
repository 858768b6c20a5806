import { expect, test } from "vitest";
import type { ClusterStore, Membership } from "./cluster-store.ts";
import { FaultLog } from "./fault-log.ts";
import { type CommitVerdict, type Store, StoreFault } from "./store.ts";

const away = (why: string): StoreFault =>
  new StoreFault(`the database cannot be reached (${why})`, { retryable: true, nothingWritten: true });

/** A log under a clock of its own, over a store that works or not. */
function scene() {
  const lines: string[] = [];
  let now = 1_000_000;
  let isAway = false;
  const call = async <T>(answer: T): Promise<T> => {
    if (isAway) throw away("refused");
    return answer;
  };
  const inner = {
    commit: () => call({ fenced: [] } as unknown as CommitVerdict),
    renew: () => call({} as Membership),
  };
  const log = new FaultLog({ now: () => now }, (line) => lines.push(line));
  const store = log.watched(inner as unknown as ClusterStore);
  const attempt = (what: "commit" | "renew"): Promise<void> =>
    (store[what] as () => Promise<unknown>)().then(
      () => undefined,
      (fault: Error) => log.report(fault),
    );
  return {
    lines,
    log,
    attempt,
    pass: (ms: number) => {
      now += ms;
    },
    goAway: (is: boolean) => {
      isAway = is;
    },
  };
}

test("an outage is a line when it begins, few at rising distances, and one when it ends", async () => {
  const { lines, attempt, pass, goAway } = scene();
  await attempt("renew");
  expect(lines).toEqual([]);
  goAway(true);
  for (let second = 0; second < 100; second++) {
    await attempt("renew");
    pass(1_000);
  }
  goAway(false);
  await attempt("renew");
  await attempt("renew");
  expect(lines).toEqual([
    "the database cannot be reached (refused)",
    "the database cannot be reached (refused): this has lasted for 5 s, 5 times since the last line",
    "the database cannot be reached (refused): this has lasted for 15 s, 10 times since the last line",
    "the database cannot be reached (refused): this has lasted for 35 s, 20 times since the last line",
    "the database cannot be reached (refused): this has lasted for 1 m 15 s, 40 times since the last line",
    "the store works again, after 1 m 40 s",
  ]);
});

test("one outage speaks in many words, and the next one begins anew", async () => {
  const { lines, log, attempt, pass } = scene();
  log.report(away("reset"));
  pass(10);
  log.report(away("refused"));
  log.report(new Error("the audit log could not be written", { cause: away("starting up") }));
  await attempt("renew");
  pass(6_000);
  await attempt("renew");
  pass(60_000);
  log.report(away("refused"));
  expect(lines).toEqual([
    "the database cannot be reached (reset)",
    "the store works again, after 10 ms",
    "the database cannot be reached (refused)",
  ]);
});

test("it is not over while commits fail and renewals do not; what nobody tries any more does not count", async () => {
  const { lines, attempt, pass, goAway } = scene();
  for (let i = 0; i < 3; i++) {
    goAway(true);
    await attempt("commit");
    goAway(false);
    pass(1_000);
    await attempt("renew");
  }
  expect(lines).toEqual(["the database cannot be reached (refused)"]);
  pass(6_000);
  await attempt("renew");
  expect(lines[1]).toBe("the store works again, after 9 s");
});

test("it is not over while anything else of the store fails, though commits and renewals work", async () => {
  const { lines, log, attempt, pass } = scene();
  for (let i = 0; i < 4; i++) {
    log.report(away("too many connections"));
    await attempt("commit");
    pass(1_000);
    await attempt("renew");
  }
  expect(lines).toEqual(["the database cannot be reached (too many connections)"]);
  pass(6_000);
  await attempt("renew");
  expect(lines[1]).toBe("the store works again, after 3 s");
});

test("other faults are distinguished by message, and each is logged again at increasing intervals", () => {
  const { lines, log, pass } = scene();
  for (let second = 0; second < 12; second++) {
    log.report(new Error("the socket is too long"));
    if (second === 3) log.report(new Error("execution a is left alone"));
    pass(1_000);
  }
  expect(lines).toEqual([
    "the socket is too long",
    "execution a is left alone",
    "the socket is too long: this has lasted for 5 s, 5 times since the last line",
  ]);
  pass(600_001);
  log.report(new Error("the socket is too long"));
  expect(lines.at(-1)).toBe("the socket is too long");
});

test("a fault that does not pass is not taken for the outage that was told before", () => {
  const { lines, log } = scene();
  log.report(away("refused"));
  log.report(new StoreFault("there is no such database", { retryable: false, nothingWritten: true }));
  expect(lines).toHaveLength(2);
});

test("a fault that the store caused names the cause", () => {
  const { lines, log } = scene();
  log.report(new Error("the audit log could not be written", { cause: away("refused") }));
  expect(lines).toEqual(["the audit log could not be written: the database cannot be reached (refused)"]);
});

test("a store of one process is watched by its commits", async () => {
  const lines: string[] = [];
  const inner = { commit: async () => ({ fenced: [] }) };
  const log = new FaultLog({ now: () => 5 }, (line) => lines.push(line));
  const store = log.watched(inner as unknown as Store) as unknown as typeof inner;
  log.report(new StoreFault("the disk is full", { retryable: true, nothingWritten: true }));
  await store.commit();
  expect(lines).toEqual(["the disk is full", "the store works again, after 0 ms"]);
});
