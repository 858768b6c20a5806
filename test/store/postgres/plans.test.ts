// No statement of the PostgreSQL store walks over a table, those inside of its functions included: the server writes
// down the plan of every statement with the rows that it really read, over tables of some size.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { ExecutionWrite, StoreInfo } from "../../../src/store/store.ts";
import { commit, endedHead, headOf, logRow, start, step } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";

const EXECUTIONS = 4_000;
const EACH = 200;
/** What a statement may read where it wants a few rows. */
const ROWS_MAX = 400;
const SMALL = [
  "acknowledged",
  "head_counts",
  "waiting_counts",
  "meta",
  "node_ends",
  "nodes",
  "partitions",
  "migrations",
  "purged",
];

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.make();
  await server.stop("fast");
  await server.start({
    shared_preload_libraries: "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    logging_collector: "on",
    log_directory: join(server.place, "log"),
  });
}, 120_000);
afterAll(() => server.remove());

const full = (id: string, n: number): ExecutionWrite =>
  start(id, {
    head: headOf(id, { project: `p${n % 3}`, workflow: `w${n % 2}`, want: n % 5 === 0 ? "work" : "time" }),
    timersSet: [{ timer: "t", due: n }],
    opened: { "p.1.h": 1 },
    snapshot: { seq: 1, foldVersion: 1, chain: `chain-${id}-1`, body: "{}" },
    mail: [{ id: `letter-${id}`, to: id, body: "{}" }],
    logs: [logRow([1])],
    deadLetters: [{ seq: 1, tasks: [1] }],
  });

async function useEverything(store: PostgresStore, info: StoreInfo): Promise<void> {
  const page = { before: null, max: 5 };
  await store.load(["e1", "e2", "nobody"], { foldVersion: 1 });
  await store.readJournal({ execution: "e3", from: 1 });
  for (const partitions of [null, [0]]) {
    await store.scanWork({ after: { "p0/w0": 10 }, each: 5, partitions });
    await store.scanTimers({ until: 1_000, max: 5, partitions });
    await store.scanMail({ after: 5, max: 5, partitions });
  }
  for (const filter of [
    {},
    { project: "p1" },
    { workflow: "w1" },
    { status: "done" },
    { project: "p0", status: "running" },
  ])
    await store.listHeads(filter, page);
  for (const filter of [{}, { project: "p1" }, { workflow: "w1" }, { execution: "e7" }])
    await store.listDeadLetters(filter, page);
  await store.readLogs({ execution: "e8", after: 0, rowsMax: 5 });
  await store.listEnded({ finishedBefore: 9, max: 5 });
  await store.dropDeadLetter(9, [1]);
  await store.putDocument("token", "a", "x");
  await store.putDocuments("token", [{ id: "b", body: "x" }]);
  await store.deleteDocuments("token", ["b", "c"]);
  await store.listDocuments("token", { max: 5 });
  await store.listDocuments("token", { max: 5, before: "z", descending: true });
  await store.putDefinition("w0", "h", "body");
  await store.addDefinitions([{ name: "w0", hash: "h", body: "body" }]);
  await store.getDefinition({ newestOf: "w0" });
  await store.listDefinitions({ after: "", max: 5 });
  const parts = (id: string): Partial<ExecutionWrite> => ({
    head: headOf(id, { project: "p1", workflow: "w1", phase: "next" }),
    timersCleared: ["t"],
    timersSet: [{ timer: "u", due: 5 }],
    opened: { "p.1.h": 2 },
    mail: [{ id: `again-${id}`, to: id, body: "{}" }],
    logs: [logRow([1, 2], { mayRepeat: true })],
    deadLettersCleared: 1,
    deadLetters: [{ seq: 2, tasks: [2] }],
  });
  await commit(
    store,
    info,
    [step("e10", 1, parts("e10")), step("e11", 1), start("new", parts("new"))],
    ["letter-e10"],
  );
  await store.post([{ id: "posted", to: "e1", body: "{}" }]);
  await commit(store, info, [
    step("e12", 1, { head: endedHead("e12", 1, { project: "p0", workflow: "w0" }) }),
  ]);
  await store.purge(["e12", "e13"]);
  await store.renew();
  await store.release([0], { clean: true });
  await store.take([0]);
}

test("every statement finds its rows by an index, and reads no more than it needs", async () => {
  const options = { url: server.url, nodeUrl: "http://node", partitions: 1 };
  const first = new PostgresStore(options);
  const info = await openWhole(first);
  // The plans are made over empty tables, and used while they grow.
  for (let from = 0; from < EXECUTIONS; from += EACH)
    await commit(
      first,
      info,
      Array.from({ length: EACH }, (_, i) => full(`e${from + i}`, from + i)),
    );
  await first.close({ clean: true });
  const second = new PostgresStore(options);
  await useEverything(second, await openWhole(second));
  await second.close({ clean: true });
  const plans = logOf(server).split("LOG:  duration").slice(1);
  expect(plans.length).toBeGreaterThan(60);
  const wrong = plans.filter((plan) => {
    const scans = [
      ...plan.matchAll(/Scan (?:Backward )?(?:using \S+ )?on (\w+).*\(actual rows=(\d+) loops=(\d+)\)/g),
    ];
    return scans.some(
      ([scan, table, rows, loops]) =>
        !SMALL.includes(table ?? "") &&
        (Number(rows) * Number(loops) > ROWS_MAX || /Seq Scan/.test(plan.slice(plan.indexOf(scan) - 4))),
    );
  });
  expect(wrong).toEqual([]);
});

function logOf({ place }: PostgresServer): string {
  const directory = join(place, "log");
  return readdirSync(directory)
    .toSorted()
    .map((file) => readFileSync(join(directory, file), "utf8"))
    .join("");
}
