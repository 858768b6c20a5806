// Somebody else than the engine has changed what is stored: whatever it is, the auditor says so, and the node is not
// asked for what it could not read.
import { workflow } from "rondo";
import { beforeAll, expect, test } from "vitest";
import { auditExecution } from "../../../src/audit/audit-execution.ts";
import { openInProcess } from "../../../src/compose/compose.ts";
import type { ExecutionView } from "../../../src/kernel/view.ts";
import { isRejection, unwrap } from "../../../src/std/rejection.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import type { JournalRow, Store } from "../../../src/store/store.ts";

const flow = workflow({ name: "wide" })
  .phase("fan", {
    enumerate: () => Array.from({ length: 3_000 }, (_, i) => i),
    process: ({ task }) => `result of ${task}`,
    concurrency: 500,
  })
  .returns(({ phases }) => phases.fan.count);

const store = new MemoryStore();
const id = "audited";
let view: ExecutionView;
beforeAll(async () => {
  const rondo = await openInProcess({ store });
  rondo.serve(flow);
  const handle = await rondo.start(flow, {}, { id });
  await handle.result();
  view = await handle.describe();
  return () => rondo.close();
});

/** The store as it is after somebody has changed its rows, or its head. */
function damaged(
  change: (rows: JournalRow[]) => JournalRow[],
  status?: string,
): Pick<Store, "readJournal" | "load"> {
  return {
    async readJournal({ from, to = Number.MAX_SAFE_INTEGER }) {
      const rows = await store.readJournal({ execution: id, from: 1, chains: true });
      return change([...rows]).filter(({ seq, count }) => seq + count > from && seq <= to);
    },
    async load(ids) {
      const [loaded] = await store.load(ids);
      if (loaded === null || loaded === undefined) return [null];
      const entries = change([...loaded.entries]);
      return [{ ...loaded, entries, head: { ...loaded.head, status: status ?? loaded.head.status } }];
    },
  };
}

const settledIn = (rows: readonly JournalRow[]): number[] =>
  rows.flatMap(({ body }, i) => (/^[^\n]*"tasks.settled","phase":"fan"/.test(body) ? [i] : []));

const DAMAGE: Readonly<Record<string, (rows: JournalRow[]) => JournalRow[]>> = {
  "a row of receipts is gone": (rows) => rows.filter((_, i) => i !== settledIn(rows)[1]),
  "two rows have changed places": (rows) => {
    const [a, b] = settledIn(rows) as [number, number];
    const [{ body: first }, { body: second }] = [rows[a] as JournalRow, rows[b] as JournalRow];
    return rows.map((row, i) =>
      i === a ? { ...row, body: second } : i === b ? { ...row, body: first } : row,
    );
  },
  "one result is another": (rows) =>
    rows.map((row) => ({ ...row, body: row.body.replace('"result of 17"', '"result of 71"') })),
  "a count is another": (rows) =>
    rows.map((row) => ({ ...row, body: row.body.replace('"done":3000', '"done":2999') })),
  "a row is cut short": (rows) =>
    rows.map((row, i) => (i === settledIn(rows)[0] ? { ...row, body: row.body.slice(0, 50) } : row)),
  "the first row is gone": (rows) => rows.slice(1),
};

test.each(Object.keys(DAMAGE))("%s", async (what) => {
  const change = DAMAGE[what] as (rows: JournalRow[]) => JournalRow[];
  const inspect = (): Promise<ExecutionView> => Promise.reject(new Error("the node would stop at this"));
  const audit = unwrap(await auditExecution(damaged(change), id, inspect));
  expect(audit.findings.map(({ code }) => code)).toContain("chain");
});

test("the end is gone, or lists show another status", async () => {
  const shown = { ...view, status: "running" as const };
  const cut = unwrap(
    await auditExecution(
      damaged((rows) => rows.slice(0, -1)),
      id,
      async () => shown,
    ),
  );
  expect(cut.findings.map(({ message }) => message)).toContain(
    "execution lists show the status done, but by the journal it is running",
  );
  const listed = unwrap(
    await auditExecution(
      damaged((rows) => rows, "failed"),
      id,
      async () => view,
    ),
  );
  expect(listed.findings.map(({ message }) => message)).toEqual([
    "execution lists show the status failed, but by the journal it is done",
  ]);
});

test("there is no journal at all", async () => {
  const audit = unwrap(
    await auditExecution(
      damaged(() => []),
      id,
      async () => view,
    ),
  );
  expect(audit.findings.map(({ message }) => message)[0]).toContain("but no journal");
});

test("nothing is found where nothing was changed", async () => {
  const audit = await auditExecution(
    damaged((rows) => rows),
    id,
    async () => view,
  );
  expect(isRejection(audit) ? audit : audit.findings).toEqual([]);
});
