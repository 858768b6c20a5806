// A graceful end with attempts open at workers elsewhere: the next owner begins with them, and nothing else is in doubt.
import { describe, expect, test } from "vitest";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { parseDefinition } from "../../kernel/definition/parse-definition.ts";
import { compilePlan } from "../../kernel/definition/plan.ts";
import type { Beat, Grant, Report } from "../../protocol/work.ts";
import { unwrap } from "../../std/rejection.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { MemoryTables } from "../../store/memory/memory-tables.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { Engine } from "../driver.ts";
import { type LeaseTable, storeLeases } from "./lease-handover.ts";

/** One owner of the store after another, with a remote worker that claims as much as it can get. */
class Owners {
  readonly clock = new VirtualClock();
  readonly #tables = new MemoryTables();
  #store = new MemoryStore(this.#tables);
  engine: Engine = null as unknown as Engine;
  grants: Grant[] = [];
  told: { readonly beat: Beat; readonly why: string }[] = [];

  async open(): Promise<void> {
    this.#store = new MemoryStore(this.#tables);
    const store = this.#store;
    const settings = { suspectMs: 30_000, heartbeatMs: 30_000 };
    this.engine = await Engine.open({ store, clock: this.clock, settings });
    this.grants = [];
    await this.clock.settle();
  }

  async start(handler: object): Promise<void> {
    const tasks = Array.from({ length: 4 }, (_, i) => i);
    const plan = compilePlan(
      unwrap(parseDefinition({ name: "w", phases: [phase("a", { tasks, ...handler })] })),
    );
    await this.#store.putDefinition("w", plan.hash, JSON.stringify(plan.definition));
    const message = { kind: "start" as const, execution: "e1", workflow: "w", hash: plan.hash };
    await this.engine.send(
      "e1",
      { ...message, project: "default", input: "null", tags: {} },
      { plan, fresh: false },
    );
    await this.clock.settle();
  }

  async claim(max: number): Promise<void> {
    const link = {
      accept: (grant: Grant) => void this.grants.push(grant),
      cancel: (beats: readonly Beat[], why: string) => {
        for (const beat of beats) this.told.push({ beat, why });
      },
    };
    this.engine.join("w1", link, { serves: [{ use: "w.a" }], capacity: 10, local: false });
    this.engine.claim("w1", max);
    await this.clock.settle();
  }

  /** Tasks that were given out by this owner. */
  given(): string[] {
    return this.grants.flatMap(({ items }) => items.map(({ number, attempt }) => `${number}#${attempt}`));
  }

  /** Reports on tasks of a grant, whichever owner granted it. */
  async say(kind: "started" | "done", grant: Grant, tasks: readonly number[]): Promise<unknown> {
    const { execution, phase: name, visit, handler, round, epoch, items } = grant;
    const place = { execution, phase: name, visit, handler, round, epoch };
    const attempts = items
      .filter(({ number }) => tasks.includes(number))
      .map(({ number, attempt, claim }) => ({ task: number, attempt, claim }));
    const outcome = { status: "done", payload: "null" } as const;
    const report: Report =
      kind === "started"
        ? { kind, ...place, attempts }
        : { kind: "receipts", ...place, receipts: attempts.map((one) => ({ ...one, ms: 1, outcome })) };
    const said = await this.engine.report("w1", [report]);
    await this.clock.settle();
    return said[0];
  }

  async beat(grant: Grant, task: number): Promise<void> {
    const { execution, phase: name, visit, handler, round, epoch, items } = grant;
    const { attempt = 0, claim = 0 } = items.find(({ number }) => number === task) ?? {};
    const place = { execution, phase: name, visit, handler, round, epoch };
    this.engine.beat("w1", [{ ...place, attempts: [{ task, attempt, claim }] }]);
    await this.clock.settle();
  }

  async status(): Promise<string> {
    const found = await this.engine.inspect("e1");
    return "view" in found ? found.view.status : found.code;
  }
}

/** An owner that ended well while its worker had begun task 0, had claimed task 1, and 2 and 3 were left. */
async function handedOver(handler: object = {}): Promise<{ owners: Owners; before: Grant }> {
  const owners = new Owners();
  await owners.open();
  await owners.start(handler);
  await owners.claim(2);
  const [before] = owners.grants as [Grant];
  await owners.say("started", before, [0]);
  await owners.engine.close();
  await owners.open();
  return { owners, before };
}

describe("after a graceful end", () => {
  test("what nobody had is given out at once; what a worker has goes on there, and is not given out again", async () => {
    const { owners, before } = await handedOver();
    await owners.claim(10);
    expect(owners.given()).toEqual(["2#1", "3#1"]);
    expect(await owners.say("done", before, [0, 1])).toEqual(["accepted", "accepted"]);
    await owners.say("done", owners.grants[0] as Grant, [2, 3]);
    expect(await owners.status()).toBe("done");
  });

  test("limits count what a worker has from the first moment on", async () => {
    const { owners, before } = await handedOver({ concurrency: 2 });
    await owners.claim(10);
    expect(owners.given()).toEqual([]);
    await owners.say("done", before, [0]);
    expect(owners.given()).toEqual(["2#1"]);
  });

  test("a claim that is not begun comes back after its lease, an attempt that is silent is lost", async () => {
    const { owners, before } = await handedOver();
    await owners.claim(0);
    await owners.clock.advance("20s");
    await owners.beat(before, 0);
    await owners.clock.advance("20s");
    await owners.claim(10);
    // The start of a task whose claim lapsed is committed first.
    expect(owners.given()).toEqual(["2#1", "3#1", "1#1"]);
    await owners.clock.advance("40s");
    await owners.claim(10);
    expect(owners.given().slice(3)).toContain("0#2");
  });

  test("it is handed on again, through any number of owners", async () => {
    const { owners, before } = await handedOver();
    for (let i = 0; i < 3; i++) {
      await owners.engine.close();
      await owners.open();
    }
    await owners.claim(10);
    expect(owners.given()).toEqual(["2#1", "3#1"]);
    expect(await owners.say("done", before, [0])).toEqual(["accepted"]);
  });

  test("a cancel that found nobody to tell is told with the next beat", async () => {
    const { owners, before } = await handedOver();
    await owners.engine.send("e1", { kind: "cancel", id: "c1", by: "ann", reason: null });
    await owners.clock.settle();
    await owners.claim(0);
    owners.told = [];
    await owners.beat(before, 0);
    expect(owners.told.map(({ why, beat }) => [why, beat.attempts[0]?.task])).toEqual([["cancel", 0]]);
  });

  test("an owner that ends while a former one's attempts are in doubt leaves them so", async () => {
    const { owners, before } = await handedOver();
    // This owner dies, and the next one ends cleanly before any worker has reported.
    await owners.open();
    await owners.claim(0);
    await owners.engine.close();
    await owners.open();
    await owners.claim(10);
    expect(owners.given()).toEqual([]);
    await owners.clock.advance("20s");
    await owners.beat(before, 0);
    await owners.clock.advance("20s");
    expect(owners.given().sort()).toEqual(["1#1", "2#1", "3#1"]);
  });
});

test("an owner that stood still while it stored its table does not cover what a later one left", async () => {
  const store = new MemoryStore();
  await store.open();
  const table = (epoch: number): LeaseTable => ({ epoch, leases: [], home: { limits: [] } });
  const epochStored = async () =>
    (JSON.parse((await store.getDocument("leases", "0")) ?? "{}") as LeaseTable).epoch;
  expect(await storeLeases(store, 0, table(1))).toBe(true);
  expect(await storeLeases(store, 0, table(4))).toBe(true);
  expect(await storeLeases(store, 0, table(2))).toBe(false);
  // A node that is suspended between its read and its write.
  const standing = {
    swapDocument: store.swapDocument.bind(store),
    putDocument: store.putDocument.bind(store),
    getDocument: async (kind: string, id: string) => {
      const seen = await store.getDocument(kind, id);
      await storeLeases(store, 0, table(6));
      return seen;
    },
  };
  expect(await storeLeases(standing, 0, table(5))).toBe(false);
  expect(await epochStored()).toBe(6);
});
