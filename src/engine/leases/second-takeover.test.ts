// A recorded attempt whose partition changes hands twice: it can be adopted as long as its permit is kept for it, which is
// until a heartbeat after the end of the last owner that held it (decision 047).
import { expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { SeededRandom } from "../../std/random.ts";
import { MemoryTables } from "../../store/memory/memory-tables.ts";
import { partitionOf } from "../../store/partition-of.ts";

const SILENCE_MS = 1_000;
const MEMBERS = {
  kind: "members",
  self: "a",
  live: ["a", "b"],
  ended: {},
  epochs: new Map(),
  reads: 9,
} as const;
const LIMIT = "default/w.a";
const HOME = partitionOf(LIMIT, 2);

/** A node with the partition of an execution, and a recorded attempt of it. The quota server of its limit is elsewhere. */
class Takeovers {
  readonly fixture: NodeFixture;
  readonly id = ["e1", "e2", "e3", "e4", "e5"].find((name) => partitionOf(name, 2) !== HOME) ?? "";
  readonly attempt: Attempt;
  readonly #ends: { epoch: number; at: number }[] = [];

  constructor() {
    const tables = new MemoryTables({ random: new SeededRandom(1), partitions: 2 });
    const settings = { suspectMs: SILENCE_MS, heartbeatMs: SILENCE_MS, permitPatienceMs: 100 };
    this.fixture = new NodeFixture(settings, tables);
    const { fixture, id } = this;
    fixture.input(MEMBERS);
    fixture.input({ kind: "lost", partitions: [HOME] });
    fixture.start(fixture.plan([phase("a", { tasks: [1], concurrency: 5 })]), id);
    fixture.join("w", ["w.a"], { local: false });
    fixture.claim("w", 1);
    fixture.settle();
    this.confirm(1);
    this.attempt = fixture.attempts()[0] as Attempt;
    fixture.started(this.attempt);
    fixture.signal(id, "any");
    fixture.settle();
    if (this.starts.length !== 1) throw new Error("the start is not recorded");
  }

  /** The epochs of the recorded starts. */
  get starts() {
    return this.fixture.events(this.id, "tasks.started").map(({ epoch }) => epoch);
  }

  get open() {
    return this.fixture.node.openLeases;
  }

  /** The quota server answers the last request, with this many permits at least. */
  confirm(least = 0): void {
    const { n = 0, quota = 0 } = this.fixture.of("ask-permits").at(-1)?.asks.at(-1) ?? {};
    const grants = [{ name: LIMIT, n, quota: Math.max(least, quota), isContended: false }];
    this.fixture.input({ kind: "permits-granted", grants });
    this.fixture.settle();
  }

  /** The owner ends uncleanly now, and the next one takes the partition. */
  takeOver(): void {
    const { fixture } = this;
    fixture.input({ kind: "lost", partitions: [1 - HOME] });
    const owned = fixture.tables
      .open()
      .owned.filter(({ partition }) => partition !== HOME)
      .map((own) => {
        this.#ends.push({ epoch: own.epoch - 1, at: fixture.now });
        return { ...own, uncleanEnds: [...this.#ends] };
      });
    fixture.input({ kind: "taken", owned, left: { leases: [], quotas: new Map(), declared: {} } });
    fixture.inspect(this.id);
  }
}

test("a recorded attempt that the first successor did not adopt is not adopted by the second, once its permit is free", () => {
  const all = new Takeovers();
  const { fixture, attempt, id } = all;
  all.takeOver();
  fixture.sleep(800);
  all.takeOver();
  fixture.sleep(250);
  // The first owner ended 1050 ms ago: its permits are given out again.
  fixture.beat(attempt);
  fixture.settle();
  expect([all.open, all.starts.length]).toEqual([0, 1]);
  expect(fixture.of("cancel").at(-1)).toMatchObject({ worker: "w", why: "lost" });
  // Its receipt still counts.
  const report = fixture.receipt(attempt);
  fixture.settle();
  expect(fixture.verdicts(report)).toEqual([["accepted"]]);
  expect(fixture.events(id, "tasks.lost")).toEqual([]);
});

test("a recorded attempt that the first successor adopted is recorded again, and the second one adopts it", () => {
  const all = new Takeovers();
  const { fixture, attempt } = all;
  const { epoch } = attempt.grant;
  all.takeOver();
  fixture.beat(attempt);
  fixture.settle();
  expect(all.starts).toEqual([epoch]);
  all.confirm();
  expect([all.open, all.starts]).toEqual([1, [epoch, epoch + 1]]);
  fixture.sleep(800);
  all.takeOver();
  fixture.sleep(250);
  fixture.beat(attempt);
  fixture.settle();
  all.confirm();
  expect([all.open, all.starts]).toEqual([1, [epoch, epoch + 1, epoch + 2]]);
});

test("an adoption by the second successor must be confirmed before the permits of the owner that held it are free", () => {
  const all = new Takeovers();
  const { fixture, attempt, id } = all;
  all.takeOver();
  fixture.sleep(800);
  all.takeOver();
  fixture.beat(attempt);
  fixture.settle();
  expect(all.open).toBe(1);
  fixture.sleep(199);
  expect(fixture.events(id, "tasks.lost")).toEqual([]);
  fixture.sleep(1);
  expect(fixture.events(id, "tasks.lost")).toMatchObject([{ tasks: [0], attempts: [1] }]);
  expect(all.open).toBe(0);
});
