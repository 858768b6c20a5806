// The journal of a gate that always has an open execution stays short, and such a gate is audited, exported and imported.
import { join } from "node:path";
import { type Json, on, workflow } from "rondo";
import { expect, test } from "vitest";
import { auditExecution } from "../../../src/audit/audit-execution.ts";
import { openInProcess, storeOf } from "../../../src/compose/compose.ts";
import { importInto } from "../../../src/compose/compose-transfer.ts";
import { compilePlan } from "../../../src/kernel/definition/plan.ts";
import { Execution } from "../../../src/kernel/execution.ts";
import { decodeEntry } from "../../../src/kernel/journal/journal-entry.ts";
import { replay } from "../../../src/kernel/journal/replay.ts";
import { RELAY_DEFINITIONS } from "../../../src/kernel/relay/relay.ts";
import { gateId } from "../../../src/kernel/relay/relay-ids.ts";
import { viewExecution } from "../../../src/kernel/view.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import { exportToFile } from "../../fixtures/store/export-to-file.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";
import { until } from "../../fixtures/until.ts";

const PLAN = compilePlan(RELAY_DEFINITIONS[1] as (typeof RELAY_DEFINITIONS)[0]);
const EVENTS_MAX = 20;
const ROUNDS = 60;
const gate = gateId({ project: "default", workflow: "counter", event: "item", key: "" });

/** An execution that takes items as signals until one is null, and returns their number. */
const counter = workflow<Json>({
  name: "counter",
  on: on("item", { singleton: "signal", signal: "item" }),
}).phase("take", {
  async process({ waitFor }) {
    for (let n = 1; ; n++) if ((await waitFor(`item ${n}`, { signal: "item" })) === null) return n;
  },
});

async function life(store: string, use: (rondo: Awaited<ReturnType<typeof openInProcess>>) => Promise<void>) {
  const stops: Error[] = [];
  const rondo = await openInProcess({
    store,
    settings: { gateEventsMax: EVENTS_MAX },
    onStop: (reason) => void stops.push(reason),
  });
  rondo.serve(counter);
  await use(rondo);
  await rondo.close();
  if (stops[0] !== undefined) throw stops[0];
}

/** The kinds of events in the journal of the gate, and what an audit finds. */
async function journalOf(source: string) {
  const store = storeOf(source);
  await store.open();
  const rows = await store.readJournal({ execution: gate, from: 1 });
  const execution = replay(new Execution(gate, PLAN), rows);
  const audit = unwrap(
    await auditExecution(store, gate, async () => viewExecution(execution, execution.now)),
  );
  await store.close({ clean: true });
  const kinds = rows.flatMap(decodeEntry).map(({ event }) => event.kind);
  return { kinds, findings: audit.findings };
}

test("a gate that is never idle keeps a short journal", async () => {
  const folder = temporaryDirectory();
  const [source, copy] = [`file:${join(folder, "a")}`, `file:${join(folder, "b")}`];
  await life(source, async (rondo) => {
    for (let n = 0; n < ROUNDS; n++) await rondo.send({ name: "item", data: n, id: `i${n}` });
  });
  const before = await journalOf(source);
  expect(before.findings).toEqual([]);
  expect(before.kinds[0]).toBe("gate.carried");
  expect(before.kinds.length).toBeLessThan(2 * EVENTS_MAX);

  await exportToFile({ store: source }, join(folder, "out"));
  await importInto({ store: copy, file: join(folder, "out") });
  expect(await journalOf(copy)).toEqual(before);
  for (const store of [source, copy])
    await life(store, async (rondo) => {
      await rondo.send({ name: "item", data: null, id: "last" });
      const [only] = (await rondo.list({ workflow: "counter" })).data;
      expect(await rondo.execution(only?.id ?? "").result()).toBe(ROUNDS);
      await until("the gate is done", async () => (await rondo.execution(gate).status()) === "done");
    });
});
