// Alerts: each cause of a rule is sent once, however many nodes see it, and also after the node that tried has died.
import { expect, test } from "vitest";
import type { Clock } from "../../std/clock.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import type { FoundGroup } from "../services/dead-letter-groups.ts";
import type { AlertRule } from "./alert.ts";
import type { FailedExecution, OldQueue } from "./alert-causes.ts";
import type { AlertMessage } from "./alert-sender.ts";
import { Alerts } from "./alerts.ts";

const START = 1_700_000_000_000;
const MINUTE = 60_000;

class World {
  now = START;
  readonly store = new MemoryStore();
  readonly sent: string[] = [];
  failures: FailedExecution[] = [];
  groups: FoundGroup[] = [];
  queues: OldQueue[] = [];
  deaths: { url: string; incarnation: string; at: number }[] = [];
  living: string[] = ["a", "b"];
  /** What the target answers; null: it takes the alert. */
  answer: (to: string) => Promise<string | null> = async () => null;

  constructor() {
    const { listEnded } = this.store;
    this.store.listEnded = async (range) => {
      if (range.status !== "failed") return listEnded(range);
      const { finishedFrom = 0, finishedBefore } = range;
      return this.failures
        .filter(({ finishedAt }) => finishedAt >= finishedFrom && finishedAt < finishedBefore)
        .slice(0, range.max)
        .map(({ id }) => id);
    };
  }

  node(name: string, rules: readonly Omit<AlertRule, "createdAt">[]): Alerts {
    const clock = { now: () => this.now, after: () => () => undefined } as unknown as Clock;
    return new Alerts({
      ...{ store: this.store, clock, rules, isPeriodic: true },
      sender: {
        refusalOf: (to) => (to.includes("internal") ? reject("forbidden", "not this target") : null),
        send: async (to: string, { id, happening, isTest }: AlertMessage, signal: AbortSignal) => {
          this.sent.push(`${name} ${isTest ? "test" : happening.text} ${id.slice(0, 10)}`);
          const aborted = new Promise<string>((resolve) =>
            signal.addEventListener("abort", () => resolve("aborted")),
          );
          return Promise.race([this.answer(to), aborted]);
        },
      },
      failed: async (id) => this.failures.find((one) => one.id === id) ?? null,
      groups: async () => this.groups,
      queues: async () => this.queues,
      ring: () =>
        ({
          ring: {
            url: name,
            nodes: this.living.map((url) => ({ url, incarnation: url, suspect: false })),
            deaths: this.deaths,
          },
        }) as never,
      onFault: (fault) => {
        throw fault;
      },
    });
  }

  /** The texts that were sent, without the node and the id. */
  get texts(): string[] {
    return this.sent.map((line) => line.split(" ").slice(1, -1).join(" "));
  }
}

const failing = { id: "failing", when: "execution.failed", workflow: "pay", to: "ops" } as const;

async function opened(...rules: Omit<AlertRule, "createdAt">[]) {
  const world = new World();
  await world.store.open();
  const [a, b] = [world.node("a", rules), world.node("b", rules)];
  await Promise.all([a.round(), b.round()]);
  world.now += MINUTE;
  return { world, a, b, round: () => Promise.all([a.round(), b.round()]) };
}

function failure(id: string, finishedAt: number, workflow = "pay"): FailedExecution {
  return { id, workflow, project: "default", finishedAt, error: "declined" };
}

test("a failed execution is told once, and again if it fails again", async () => {
  const { world, round } = await opened(failing);
  world.failures = [failure("x", world.now), failure("other", world.now, "mail")];
  await round();
  world.now += 5_000;
  await round();
  expect(world.texts).toEqual(["Execution x of pay failed: declined"]);
  world.now += MINUTE;
  world.failures = [failure("x", world.now)];
  await round();
  expect(world.texts).toHaveLength(2);
});

test("failures from before the rule, and from before the server began to look, are not told", async () => {
  const { world, round } = await opened(failing);
  world.failures = [failure("old", START - MINUTE)];
  await round();
  expect(world.sent).toEqual([]);
});

test("the alert of a node that died while it sent is sent by another, with the same id", async () => {
  const { world, a, b } = await opened(failing);
  world.failures = [failure("x", world.now)];
  world.answer = () => new Promise(() => undefined);
  void a.round();
  await expect.poll(() => world.sent.length).toBe(1);
  world.answer = async () => null;
  world.living = ["b"];
  await b.round();
  expect(world.sent).toHaveLength(1);
  world.now += 2 * MINUTE;
  await b.round();
  await b.round();
  expect(world.sent.map((line) => line[0])).toEqual(["a", "b"]);
  expect(new Set(world.sent.map((line) => line.split(" ").at(-1))).size).toBe(1);
});

test("an alert that the target refuses is tried again, and given up in the end", async () => {
  const { world, a } = await opened(failing);
  world.failures = [failure("x", world.now)];
  world.answer = async () => "the target answered 500";
  for (let i = 0; i < 20; i++) {
    await a.round();
    world.now += 20 * MINUTE;
  }
  expect(world.sent).toHaveLength(8);
  expect(await a.recent(9)).toMatchObject([{ state: "failed", tries: 8, error: "the target answered 500" }]);
});

test("a new group of errors is told once, however many tasks it gets", async () => {
  const { world, round } = await opened({ id: "errors", when: "error.new", to: "ops" });
  const group = { id: "g1", workflow: "pay", project: "default", name: "TypeError", message: "x", tasks: 1 };
  const found = (tasks: number, firstAt: number) =>
    [{ group: { ...group, tasks, firstAt, sample: { execution: "e", task: 0 } }, letters: [] }] as never;
  world.groups = found(1, world.now);
  await round();
  // Older letters were dropped: the first of the rest is later.
  world.groups = found(50, world.now + 9);
  world.now += MINUTE;
  await round();
  expect(world.texts).toEqual(["New error in pay: TypeError: x"]);
});

test("an old queue is told once while it is old, also after a takeover, and again later", async () => {
  const rule = { id: "queues", when: "queue.old", afterMs: 10 * MINUTE, to: "ops" } as const;
  const { world, a, b } = await opened(rule);
  const old = { use: "pay.charge", tasks: 3, since: world.now - 20 * MINUTE };
  world.queues = [old];
  await a.round();
  expect(world.sent).toEqual([]);
  await a.round();
  world.living = ["b"];
  for (let i = 0; i < 3; i++) await b.round();
  expect(world.texts).toEqual(["The queue of pay.charge is older than 10 m: 3 tasks wait"]);
  world.queues = [{ ...old, since: world.now }];
  await b.round();
  world.queues = [old];
  for (let i = 0; i < 3; i++) await b.round();
  expect(world.sent).toHaveLength(2);
});

test("a node that died is told once, by whichever node notices; a slow node is not", async () => {
  const { world, round } = await opened({ id: "nodes", when: "node.died", to: "ops" });
  world.deaths = [
    { url: "c", incarnation: "c", at: world.now },
    { url: "b", incarnation: "b", at: world.now },
  ];
  await round();
  world.now += MINUTE;
  await round();
  expect(world.texts).toEqual(["The node c died"]);
});

test("rules are made, tested and deleted; targets that are refused and rules of the file are not changed", async () => {
  const { world, a } = await opened(failing);
  const rule = { id: "mine", when: "error.new", to: "https://example.com/x" } as const;
  expect(isRejection(await a.put({ ...rule, to: "http://internal/" }))).toBe(true);
  expect(await a.put({ ...rule, id: "failing" })).toMatchObject({ code: "conflict" });
  await a.put(rule);
  expect((await a.rules()).map(({ id, isOfFile }) => [id, isOfFile])).toEqual([
    ["failing", true],
    ["mine", false],
  ]);
  world.answer = async () => "no answer";
  expect(await a.test("mine")).toBe("no answer");
  expect(await a.test("none")).toMatchObject({ code: "not_found" });
  expect([await a.remove("mine"), await a.remove("mine"), await a.remove("failing")]).toEqual([
    true,
    false,
    false,
  ]);
});

test("a target that hangs delays no other target, and a node that stops does not wait for it", async () => {
  const { world, a } = await opened(failing, { ...failing, id: "second", to: "chat" });
  world.failures = ["x", "y", "z"].map((id) => failure(id, world.now));
  const told: string[] = [];
  world.answer = (to) => {
    told.push(to);
    return to === "ops" ? new Promise(() => undefined) : Promise.resolve(null);
  };
  const round = a.round();
  await expect.poll(() => told.filter((to) => to === "chat").length).toBe(3);
  expect(told.filter((to) => to === "ops")).toHaveLength(1);
  await a.close();
  await round;
  // The try that was ended does not count as a refusal: the alert is open, and it is sent later.
  expect((await a.recent(9)).filter(({ state }) => state === "open")).toHaveLength(3);
});

test("a target that refuses an alert gets no more in the same round", async () => {
  const { world, a } = await opened(failing);
  world.failures = ["x", "y", "z"].map((id) => failure(id, world.now));
  world.answer = async () => "the target answered 503";
  await a.round();
  expect(world.sent).toHaveLength(1);
});

test("more failures of one moment than a page has are all told", async () => {
  const { world, a } = await opened(failing);
  world.failures = Array.from({ length: 1_300 }, (_, n) => failure(`x${n}`, world.now));
  for (let i = 0; i < 8; i++) await a.round();
  expect(new Set(world.sent).size).toBe(1_300);
});

test("a rule of the file whose mark is damaged goes on", async () => {
  const { world, round } = await opened(failing);
  await world.store.putDocument("alert-rule", "file:failing", "garbled");
  await round();
  world.now += MINUTE;
  world.failures = [failure("x", world.now)];
  await round();
  world.now += 5_000;
  await round();
  expect(world.texts).toEqual(["Execution x of pay failed: declined"]);
});
