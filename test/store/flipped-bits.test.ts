// Copies of a store with one flipped bit each, over all pages of the file and its write-ahead log. Each ends in one class,
// and none gives a wrong answer: what an execution is shown as is what the intact store shows, or it is damaged.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openRondo, workflow } from "rondo";
import { afterAll, beforeAll, expect, test } from "vitest";
import { auditExecution } from "../../src/audit/audit-execution.ts";
import { Engine } from "../../src/engine/driver.ts";
import { systemClock } from "../../src/std/clock.ts";
import { SeededRandom as Rng } from "../../src/std/random.ts";
import { isRejection } from "../../src/std/rejection.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreFault } from "../../src/store/store.ts";
import { effort } from "../fixtures/long.ts";
import { unpackArchive } from "../fixtures/unpack-archive.ts";

const COPIES = effort({ usual: 40, long: 1_000 });
/** Copies that are open at the same time. */
const TOGETHER = 4;
const IDS = Array.from({ length: 12 }, (_, i) => `order-${i}`);

const child = workflow({ name: "child" }).phase("do", { process: ({ task }) => task });
const flow = workflow({ name: "orders" })
  .phase("fan", {
    enumerate: ({ input }) =>
      Array.from({ length: 20 }, (_, i) => ({ i, text: `item ${JSON.stringify(input)} ${i}` })),
    process: ({ task, log }) => {
      log.info(`working on ${JSON.stringify(task)}`);
      return { price: 4_711 };
    },
  })
  .waitFor("approval", { timeout: "90d" });

const home = mkdtempSync(join(tmpdir(), "rondo-flipped-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
const files = { closed: join(home, "closed"), crashed: join(home, "crashed") };
/** What the intact store answers. */
let intact: Map<string, string>;
let intactLists = "";

beforeAll(async () => {
  // The usual copies are of a store that was made once, so that every run flips the same bits.
  if (COPIES > 100) await makeStore();
  else unpackArchive(fileURLToPath(new URL("../fixtures/flipped-bits.tar.gz", import.meta.url)), home);
  const looked = await look(files.closed);
  intact = looked.answers;
  intactLists = looked.lists;
});

/** Makes a store with everything in it: as it is after a crash, and after a close. */
async function makeStore(): Promise<void> {
  const directory = join(home, "made");
  const rondo = await openRondo({ store: `file:${directory}` });
  rondo.serve(flow, child);
  for (const id of IDS) await rondo.start(flow, id, { id });
  for (const id of IDS.slice(0, 4)) await rondo.start(child, { of: id }, { id: `child-${id}` });
  for (const id of IDS) await until(async () => (await rondo.execution(id).describe()).phase === "approval");
  for (const id of IDS.slice(0, 4)) await rondo.execution(`child-${id}`).result();
  cpSync(directory, files.crashed, { recursive: true });
  await rondo.close();
  cpSync(directory, files.closed, { recursive: true });
  for (const each of Object.values(files))
    for (const name of ["lock.db", "owner.json"]) rmSync(join(each, name), { force: true });
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

interface Looked {
  readonly answers: Map<string, string>;
  readonly damaged: readonly string[];
  readonly missing: readonly string[];
  readonly findings: number;
  readonly warnings: readonly string[];
  readonly lists: string;
}

/** Opens a copy and asks for everything. */
async function look(directory: string): Promise<Looked> {
  const store = new SqliteStore({ directory, onFatal: () => {} });
  const stops: Error[] = [];
  const engine = await Engine.open({ store, clock: systemClock(), onStop: (why) => stops.push(why) });
  try {
    const answers = new Map<string, string>();
    const damaged: string[] = [];
    const missing: string[] = [];
    for (const id of [...IDS, ...IDS.slice(0, 4).map((one) => `child-${one}`)]) {
      const found = await engine.inspect(id);
      if (isRejection(found)) missing.push(id);
      else if (found.view.status === "damaged") damaged.push(id);
      else {
        const rows = await store.readJournal({ execution: id, from: 1 });
        const logs = await store.readLogs({ execution: id, after: 0, rowsMax: 99 });
        const texts = logs
          .flatMap(({ lines }) => lines.map(({ text }) => text))
          .filter((text) => !text.includes("are damaged"));
        const isWhole = rows.every(({ damage }) => damage === undefined);
        answers.set(id, JSON.stringify([found.view, isWhole && rows]));
        for (const text of texts)
          if (!text.startsWith('working on {"i":')) throw new Error(`a wrong log line: ${text}`);
      }
    }
    const lists = await listsOf(store);
    const findings = (await store.auditTables({ repair: false })).length;
    if (stops[0] !== undefined) throw stops[0];
    return { answers, damaged, missing, findings, warnings: engine.info.warnings ?? [], lists };
  } finally {
    await engine.close().catch((thrown: unknown) => {
      if (!(thrown instanceof StoreFault)) throw thrown;
    });
  }
}

/** What follows from journals and is kept beside them. */
async function listsOf(store: SqliteStore): Promise<string> {
  const heads = await store.listHeads({}, { before: null, max: 99 });
  const timers = await Promise.all(heads.map(async ({ id }) => [id, await store.timersOf(id)]));
  return JSON.stringify([heads.map(({ order: _, ...head }) => head), timers, await store.countHeads({})]);
}

/** Audits everything and derives anew what is otherwise; gives what lists show then. */
async function repaired(directory: string): Promise<string> {
  const store = new SqliteStore({ directory, onFatal: () => {} });
  const engine = await Engine.open({ store, clock: systemClock() });
  try {
    const inspect = async (id: string) => {
      const found = await engine.inspect(id);
      return isRejection(found) ? found : found.view;
    };
    for (const { id } of await store.listHeads({}, { before: null, max: 99 }))
      await auditExecution(store, id, () => inspect(id), { repair: true, partitions: 1 });
    await store.auditTables({ repair: true });
    return await listsOf(store);
  } finally {
    await engine.close();
  }
}

test(`${COPIES} copies with one flipped bit each: damage stays where it is, and no answer is wrong`, async () => {
  expect(intact.size).toBe(16);
  const random = new Rng(20_261_116);
  const ends: Record<string, number> = {};
  const wrong: string[] = [];
  const flip = async (i: number): Promise<void> => {
    const isWal = i % 4 === 1;
    const state = isWal || i % 8 === 3 ? "crashed" : "closed";
    const name = isWal ? "rondo.db-wal" : "rondo.db";
    const copy = join(home, `copy-${i}`);
    mkdirSync(copy);
    cpSync(files[state], copy, { recursive: true });
    const file = join(copy, name);
    const bytes = readFileSync(file);
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
    writeFileSync(file, bytes);
    const end = await classify(copy, `${i}: ${state} ${name} byte ${at}`, wrong);
    ends[`${name} ${end}`] = (ends[`${name} ${end}`] ?? 0) + 1;
    rmSync(copy, { recursive: true, force: true });
  };
  // Bits are drawn before anything waits, so which they are does not depend on which copy is looked at first.
  for (let i = 0; i < COPIES; i += TOGETHER)
    await Promise.all(Array.from({ length: Math.min(TOGETHER, COPIES - i) }, (_, j) => flip(i + j)));
  console.info(`flipped bits: ${JSON.stringify(ends)}`);
  expect(wrong).toEqual([]);
}, 3_600_000);

async function classify(copy: string, where: string, wrong: string[]): Promise<string> {
  let looked: Looked;
  try {
    looked = await look(copy);
  } catch (thrown) {
    if (!(thrown instanceof StoreFault) || !thrown.message.includes("rondo.db"))
      wrong.push(`${where}: ${String(thrown)}`);
    const again = await look(copy).then(
      () => "",
      (second: Error) => second.message,
    );
    if (!again.includes("rondo.db")) wrong.push(`${where}: refused once (${String(thrown)}), then not`);
    return "refused";
  }
  const { answers, damaged, missing, warnings, findings, lists } = looked;
  const isOfWal = warnings.some((warning) => warning.includes("-wal is damaged"));
  for (const [id, answer] of answers)
    if (answer !== intact.get(id) && !where.includes("-wal"))
      wrong.push(`${where}: ${id} is shown as ${answer.slice(0, 300)}`);
  if (missing.length > 0 && !where.includes("-wal")) wrong.push(`${where}: ${missing.join()} not found`);
  if (damaged.length > 1) wrong.push(`${where}: ${damaged.length} damaged`);
  if (damaged.length > 0) return "damaged";
  if (isOfWal) return "lost transactions told";
  if (warnings.length > 0) return "indexes made anew";
  if (findings > 0) return "counts found by the audit";
  if (lists === intactLists) return "no effect";
  if (where.includes("-wal")) return "the last transaction is gone";
  const after = await repaired(copy);
  if (after !== intactLists)
    wrong.push(`${where}: after a repair lists show ${difference(after, intactLists)}`);
  return "lists repaired";
}

function difference(one: string, other: string): string {
  const at = [...one].findIndex((letter, i) => letter !== other[i]);
  return `${one.slice(Math.max(0, at - 60), at + 60)} instead of ${other.slice(Math.max(0, at - 60), at + 60)}`;
}
