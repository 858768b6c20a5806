// Rows of every table are garbled under two nodes: what is damaged stays where it is, whichever node has it.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import { MAKE_TEAR, tear } from "../../fixtures/store/torn-values.ts";
import { until } from "../../fixtures/until.ts";

const flows = fileURLToPath(new URL("../../fixtures/cluster/damage-flows.mjs", import.meta.url));

/**
 * `damaged`: the execution cannot go on and says so. `derived`: it is shown right by its id, the audit finds what follows
 * from its journal and is otherwise, and a repair mends it. `same`: nobody needs the row, or it is written anew when the
 * execution is loaded.
 */
type End = "damaged" | "derived" | "same";

/** A text with bytes that are no UTF-8: PostgreSQL stores and sends them as they are. */
const BYTES = "'\\x7b22ff00c328a0a122'::bytea::text";

const CASES: Readonly<Record<string, readonly [end: End, sql: string]>> = {
  "journal-letter": [
    "damaged",
    "UPDATE journal SET body = replace(body, 'created', 'treated') WHERE e = $ AND seq = 1",
  ],
  "journal-bytes": ["damaged", `UPDATE journal SET body = ${BYTES} WHERE e = $ AND seq > 1`],
  "journal-separator": [
    "damaged",
    "UPDATE journal SET body = body || E'\\x1f' || body WHERE e = $ AND seq = 1",
  ],
  "journal-escape": ["same", "UPDATE journal SET body = E'\\x01' || body WHERE e = $ AND seq = 1"],
  "journal-empty": ["damaged", "UPDATE journal SET body = '' WHERE e = $"],
  "journal-missing": ["damaged", "DELETE FROM journal WHERE e = $ AND seq = 1"],
  "journal-none": ["damaged", "DELETE FROM journal WHERE e = $"],
  "journal-seq": ["damaged", "UPDATE journal SET seq = seq + 100000 WHERE e = $ AND seq > 1"],
  "journal-negative": ["damaged", "UPDATE journal SET seq = -seq WHERE e = $ AND seq > 1"],
  "journal-count": ["damaged", "UPDATE journal SET count = count + 1 WHERE e = $ AND seq = 1"],
  "journal-at": ["damaged", "UPDATE journal SET at = at + 4096 WHERE e = $ AND seq = 1"],
  "journal-phase": ["derived", "UPDATE journal SET phase = 'gone' WHERE e = $"],
  "snapshot-body": ["same", `UPDATE snapshots SET body = ${BYTES} WHERE e = $`],
  "snapshot-seq": ["same", "UPDATE snapshots SET seq = seq - 1 WHERE e = $"],
  "timer-due": ["derived", "UPDATE timers SET due = due + 4096 WHERE e = $"],
  "timer-name": ["derived", `UPDATE timers SET timer = ${BYTES} WHERE e = $`],
  "timer-missing": ["derived", "DELETE FROM timers WHERE e = $"],
  "timer-partition": ["derived", "UPDATE timers SET partition = partition + 1024 WHERE e = $"],
  "opened-tasks": ["derived", "INSERT INTO opened VALUES ($, 4611686018427387904, 'fan.1.process')"],
  "opened-low": ["derived", "INSERT INTO opened VALUES ($, 1, 'fan.1.process')"],
  "opened-name": ["derived", `INSERT INTO opened VALUES ($, 5, ${BYTES})`],
  "log-body": ["same", `UPDATE logs SET body = ${BYTES} WHERE e = $`],
  "log-attempt": ["same", "UPDATE logs SET attempt = 'x' || attempt WHERE e = $"],
  "dead-letter": ["same", `UPDATE dead_letters SET tasks = ${BYTES} WHERE e = $`],
  "letter-body": [
    "damaged",
    `INSERT INTO letters (n, partition, id, recipient, body)
      SELECT nextval('letters_n'), partition, 'letter-' || id, id, ${BYTES} FROM executions WHERE e = $`,
  ],
  "head-status": ["derived", "UPDATE executions SET status = 'ruoning' WHERE e = $"],
  "head-bytes": ["derived", `UPDATE executions SET status = ${BYTES}, tags = ${BYTES} WHERE e = $`],
  "head-want": ["same", "UPDATE executions SET want = 'tine' WHERE e = $"],
  "head-hash": ["derived", "UPDATE executions SET hash = 'x' || hash WHERE e = $"],
  "head-project": ["derived", "UPDATE executions SET project = 'defbult' WHERE e = $"],
  "head-workflow": ["derived", "UPDATE executions SET workflow = 'hole' WHERE e = $"],
  "head-partition": ["derived", "UPDATE executions SET partition = partition + 1024 WHERE e = $"],
  "head-times": ["derived", "UPDATE executions SET created_at = -1, finished_at = 5 WHERE e = $"],
  "head-tags": ["derived", `UPDATE executions SET tags = '{"a":' WHERE e = $`],
  // Values that the database itself cannot read.
  "journal-torn": ["damaged", tear("journal", "body", "e = $ AND seq = 1")],
  "snapshot-torn": ["same", tear("snapshots", "body", "e = $")],
  "log-torn": ["same", tear("logs", "body", "e = $")],
  "dead-letter-torn": ["same", tear("dead_letters", "tasks", "e = $")],
  "letter-torn": [
    "damaged",
    `INSERT INTO letters (n, partition, id, recipient, body)
      SELECT nextval('letters_n'), partition, 'letter-' || id, id, '{}' FROM executions WHERE e = $;
    ${tear("letters", "body", "recipient = (SELECT id FROM executions WHERE e = $)")}`,
  ],
  "head-torn": ["derived", tear("executions", "tags", "e = $")],
  "head-epoch": ["same", "UPDATE executions SET epoch = epoch + 100000 WHERE e = $"],
};

const RUNNING = "running go";

interface View {
  readonly status: string;
  readonly phase: string | null;
  readonly output: unknown;
}

test("rows of every table are garbled: damage stays where it is, on both nodes, after a kill and a takeover", {
  timeout: 300_000,
}, async () => {
  // A node that is late has lost nothing here: whoever asks waits until it is a member again.
  const fixture = await openCluster({ flows, leaseMs: 1_500 });
  await fixture.worker();
  const names = Object.keys(CASES);
  const ids = new Map<string, readonly string[]>();
  // Of each kind one, at one node or the other.
  const candidates = await Promise.all(names.map((name) => fixture.idsByNode(name)));
  for (const [i, name] of names.entries()) ids.set(name, [candidates[i]?.[i % 2] as string]);
  ids.set("healthy", await fixture.idsByNode("healthy"));
  const all = [...ids.values()].flat();
  const start = (id: string) =>
    fixture.insist("POST", "/v1/executions", { workflow: "hold", input: {}, id, tags: { customer: "c1" } });
  await Promise.all(all.map(start));
  const view = (id: string, at?: NodePlace): Promise<View> =>
    (at === undefined
      ? fixture.insist("GET", `/v1/executions/${id}`)
      : fixture.insistAt(at, "GET", `/v1/executions/${id}`)) as Promise<View>;
  await Promise.all(all.map((id) => until(`${id} waits`, async () => (await view(id)).phase === "go")));

  const [a, b] = fixture.nodes as [NodePlace, NodePlace];
  await fixture.query("CREATE CAST (bytea AS text) WITHOUT FUNCTION");
  await fixture.query(MAKE_TEAR);
  await garble(fixture, ids);

  // A node that had an execution in memory before shows it from there, and is right.
  const look = async (at: NodePlace, knew: "some" | "none"): Promise<void> => {
    const wrong: string[] = [];
    const check = async (name: string, end: End): Promise<void> => {
      for (const id of ids.get(name) ?? []) {
        const shown = await view(id, at);
        const is = shown.status === "damaged" ? "damaged" : `${shown.status} ${shown.phase}`;
        const isRight =
          is === (end === "damaged" ? "damaged" : RUNNING) || (knew === "some" && is === RUNNING);
        if (!isRight) wrong.push(`${id} is ${is} at ${at.url}`);
      }
    };
    await Promise.all(Object.entries(CASES).map(([name, [end]]) => check(name, end)));
    for (const id of ids.get("healthy") ?? [])
      expect(await view(id, at)).toMatchObject({ status: "running", phase: "go" });
    expect(wrong).toEqual([]);
  };

  // A dies: B has everything.
  await a.running.kill();
  await fixture.settled();
  await look(b, "some");
  // A comes back, and B goes: A has everything.
  await fixture.startNode(a);
  await fixture.settled();
  await look(a, "some");
  await look(b, "some");
  await b.running.kill();
  await fixture.settled();
  await look(a, "none");

  const audit = async (id: string, method: "GET" | "POST") => {
    const { findings } = (await fixture.insistAt(a, method, `/v1/executions/${id}/audit`)) as {
      findings: { code: string; message: string; isRepaired?: boolean }[];
    };
    return findings;
  };
  const wrong: string[] = [];
  const repair = async (name: string, end: End): Promise<void> => {
    for (const id of ids.get(name) ?? []) {
      const found = await audit(id, "GET");
      const codes = [...new Set(found.map(({ code }) => code))].sort().join();
      if (end === "same" ? codes !== "" : end === "derived" ? codes !== "differs" : codes === "")
        wrong.push(`${id}: the audit finds ${JSON.stringify(found)}`);
      if (end !== "derived") continue;
      await audit(id, "POST");
      const left = await audit(id, "GET");
      if (left.length > 0) wrong.push(`${id}: after a repair the audit finds ${JSON.stringify(left)}`);
    }
  };
  await Promise.all(Object.entries(CASES).map(([name, [end]]) => repair(name, end)));
  expect(wrong).toEqual([]);
  // B comes back, and A goes: B has everything as it was repaired.
  await fixture.startNode(b);
  await a.running.kill();
  await fixture.settled();

  const finish = async (id: string, isDamaged: boolean): Promise<void> => {
    const signalled = fixture.insistAt(b, "POST", `/v1/executions/${id}/signals`, { name: "go", data: id });
    if (isDamaged) return expect(signalled).rejects.toThrow(/: 409 /);
    await signalled;
    expect(await fixture.ended(id)).toMatchObject({ status: "done", output: [4, id] });
  };
  await Promise.all(
    [...ids].flatMap(([name, of]) => of.map((id) => finish(id, CASES[name]?.[0] === "damaged"))),
  );
  const damaged = [...ids].filter(([name]) => CASES[name]?.[0] === "damaged").flatMap(([, of]) => of);
  const told = fixture.processes
    .flatMap(({ lines }) => lines)
    .filter((line) => line.includes("is damaged; other executions continue"));
  for (const id of damaged)
    expect([id, told.filter((line) => line.includes(`${id} is`)).length]).toEqual([id, 1]);
  expect(b.running.hasEnded).toBe(false);
  for (const id of damaged) await fixture.insist("POST", `/v1/executions/${id}/drop`, {});
  expect(await fixture.query("SELECT status, count(*)::int AS n FROM rondo.executions GROUP BY 1")).toEqual([
    { status: "done", n: all.length - damaged.length },
  ]);
});

/** Does to each execution what its case says. */
async function garble(fixture: ClusterFixture, ids: ReadonlyMap<string, readonly string[]>): Promise<void> {
  for (const [name, of] of ids) {
    const sql = CASES[name]?.[1];
    if (sql === undefined) continue;
    for (const id of of) {
      const [row] = await fixture.query<{ e: string }>("SELECT e FROM rondo.executions WHERE id = $1", [id]);
      await fixture.query(`SET search_path TO rondo; ${sql.replaceAll("$", row?.e ?? "")}`);
    }
  }
}
