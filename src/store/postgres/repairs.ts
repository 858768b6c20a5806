/** Repairs stored data: writes rows that were derived from a journal, recounts heads, and deletes damaged executions. */
import type { Entry } from "../../kernel/journal/journal-entry.ts";
import { firstHead, lostDefinition, lostHead } from "../lost-heads.ts";
import { partitionOf } from "../partition-of.ts";
import { DAMAGED, type Derived, type Head, type MailboxMessage, type TableFinding } from "../store.ts";
import type { CommitQueue } from "./commit-queue.ts";
import type { Meta } from "./database.ts";
import { UnreadableValue } from "./faults.ts";
import type { Hints } from "./hints.ts";
import type { KnownExecutions } from "./known-executions.ts";
import type { Value } from "./link.ts";
import type { Links } from "./links.ts";
import { orUnreadable } from "./read-apart.ts";
import type { SideWriter } from "./side-writer.ts";
import { decodeText, encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

const CHECKED = "check_generation_1($1) AS checked";

const WAITING_DIFFERS = `
    FROM (SELECT project, workflow, sum(n) AS n FROM waiting_counts, ${CHECKED} GROUP BY 1, 2) k
    FULL JOIN (
      SELECT project, workflow, count(*) AS n FROM executions WHERE status = 'running' AND want = 'time' GROUP BY 1, 2
    ) t USING (project, workflow)
    WHERE coalesce(k.n, 0) <> coalesce(t.n, 0)`;

const STATEMENTS = {
  "put-derived": `SELECT put_derived_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
  timers: `
    SELECT t.timer, t.due FROM timers t JOIN executions x ON x.e = t.e, ${CHECKED}
    WHERE x.id = $2 AND t.partition = $3 ORDER BY t.timer`,
  "drop-damaged": `
    WITH gone AS (DELETE FROM executions USING ${CHECKED} WHERE id = $2 AND status = '${DAMAGED}' RETURNING e),
      snapshots_gone AS (DELETE FROM snapshots s USING gone WHERE s.e = gone.e),
      timers_gone AS (DELETE FROM timers t USING gone WHERE t.e = gone.e),
      opened_gone AS (DELETE FROM opened o USING gone WHERE o.e = gone.e),
      letters_gone AS (DELETE FROM letters l USING gone WHERE l.recipient = $2),
      noted AS (INSERT INTO purged SELECT e FROM gone),
      posted AS (
        INSERT INTO letters (n, partition, id, recipient, body)
        SELECT nextval('letters_n'), $3::int, $4, $5, $6 FROM gone WHERE $4::text IS NOT NULL ON CONFLICT DO NOTHING
      )
    SELECT e FROM gone`,
  // One statement reads one snapshot of the database, and counters change together with their rows. So any difference is an error.
  "wrong-counts": `
    SELECT coalesce(k.project, t.project), coalesce(k.workflow, t.workflow), coalesce(k.status, t.status),
      coalesce(k.n, 0)::bigint, coalesce(t.n, 0)::bigint
    FROM (SELECT project, workflow, status, sum(n) AS n FROM head_counts, ${CHECKED} GROUP BY 1, 2, 3) k
    FULL JOIN (SELECT project, workflow, status, count(*) AS n FROM executions GROUP BY 1, 2, 3) t
      USING (project, workflow, status)
    WHERE coalesce(k.n, 0) <> coalesce(t.n, 0)`,
  recount: `
    INSERT INTO head_counts AS c (writer, project, workflow, status, n)
    SELECT 0, coalesce(k.project, t.project), coalesce(k.workflow, t.workflow), coalesce(k.status, t.status),
      coalesce(t.n, 0) - coalesce(k.n, 0)
    FROM (SELECT project, workflow, status, sum(n) AS n FROM head_counts, ${CHECKED} GROUP BY 1, 2, 3) k
    FULL JOIN (SELECT project, workflow, status, count(*) AS n FROM executions GROUP BY 1, 2, 3) t
      USING (project, workflow, status)
    WHERE coalesce(k.n, 0) <> coalesce(t.n, 0)
    ON CONFLICT (project, workflow, status, writer) DO UPDATE SET n = c.n + excluded.n`,
  "wrong-waiting": `
    SELECT coalesce(k.project, t.project), coalesce(k.workflow, t.workflow), coalesce(k.n, 0)::bigint, coalesce(t.n, 0)::bigint
    ${WAITING_DIFFERS}`,
  "recount-waiting": `
    INSERT INTO waiting_counts AS c (writer, project, workflow, n)
    SELECT 0, coalesce(k.project, t.project), coalesce(k.workflow, t.workflow), coalesce(t.n, 0) - coalesce(k.n, 0)
    ${WAITING_DIFFERS}
    ON CONFLICT (project, workflow, writer) DO UPDATE SET n = c.n + excluded.n`,
  // The query needs one index seek for each execution, instead of one for each row.
  "lost-heads": `
    WITH RECURSIVE journals AS (
      (SELECT j.e FROM journal j, ${CHECKED} ORDER BY j.e LIMIT 1)
      UNION ALL
      SELECT (SELECT j.e FROM journal j WHERE j.e > journals.e ORDER BY j.e LIMIT 1) FROM journals WHERE e IS NOT NULL
    )
    SELECT e FROM journals WHERE e IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM executions x WHERE x.e = journals.e)
      AND NOT EXISTS (SELECT 1 FROM purged p WHERE p.e = journals.e)`,
  "first-row": `SELECT seq, count, at, body FROM journal, ${CHECKED} WHERE e = $2 AND seq = 1`,
  // Epoch 0 is older than every unclean epoch. So tasks that may have started before are treated as possibly running.
  "put-head": `
    INSERT INTO executions (e, id, partition, epoch, workflow, hash, project, status, phase, want, priority,
      created_at, finished_at, tags, error)
    SELECT $2::bigint, $3, $4::int, 0, $5, $6, $7, $8, NULL, $9, 0, $10::bigint, NULL, $11, NULL FROM ${CHECKED}
    ON CONFLICT DO NOTHING RETURNING e`,
  "lost-definitions": `
    SELECT w.workflow, d.hash FROM (
      SELECT workflow, max(e) AS e FROM executions, ${CHECKED} WHERE hash IN (SELECT hash FROM definitions) GROUP BY workflow
    ) w JOIN executions x ON x.e = w.e JOIN definitions d ON d.hash = x.hash
    WHERE NOT EXISTS (
      SELECT 1 FROM newest_definitions n JOIN definitions o ON o.hash = n.hash WHERE n.name = w.workflow
    )`,
  "definition-body": `SELECT body FROM definitions, ${CHECKED} WHERE hash = $2`,
  // If another definition was stored meanwhile, it is newer and stays.
  "point-to-definition": `
    INSERT INTO newest_definitions AS n (name, hash) SELECT $2, $3 FROM ${CHECKED}
    ON CONFLICT (name) DO UPDATE SET hash = excluded.hash
      WHERE NOT EXISTS (SELECT 1 FROM definitions d WHERE d.hash = n.hash)`,
} as const;

export interface RepairParts {
  readonly links: Links;
  readonly side: SideWriter;
  readonly queue: CommitQueue;
  readonly knowledge: KnownExecutions;
  readonly hints: Hints;
  readonly meta: Meta;
}

export class PostgresRepairs {
  readonly #parts: RepairParts;

  constructor(parts: RepairParts) {
    this.#parts = parts;
  }

  async putDerived(derived: Derived): Promise<boolean> {
    let isPut = false;
    await this.#alone(derived.head.id, async () => {
      isPut = await this.#put(derived);
    });
    return isPut;
  }

  async #put({ head, timers, opened, end }: Derived): Promise<boolean> {
    const { id, partition, workflow, hash, project, status, phase, want, priority } = head;
    const { createdAt, finishedAt, tags, error } = head;
    const [row] = await this.#run<[isPut: boolean]>("put-derived", [
      ...[
        this.#parts.meta.lock,
        plainText(id),
        partition,
        end,
        workflow,
        hash,
        project,
        status,
        phase,
        want,
        priority,
      ],
      ...[createdAt, finishedAt, encodeText(JSON.stringify(tags)), error === null ? null : encodeText(error)],
      timers === null ? null : (joinTexts(timers.map(({ timer }) => plainText(timer))) ?? ""),
      timers === null ? null : (joinNumbers(timers.map(({ due }) => due)) ?? "{}"),
      opened === null ? null : (joinTexts(Object.keys(opened).map(plainText)) ?? ""),
      opened === null ? null : (joinNumbers(Object.values(opened)) ?? "{}"),
    ]);
    return row?.[0] === true;
  }

  async timersOf(execution: string): Promise<{ timer: string; due: number }[]> {
    // A timer row in another partition never fires, so it is not counted.
    const partition = partitionOf(execution, this.#parts.meta.partitions);
    const rows = await this.#run<[timer: string, due: number]>("timers", [execution, partition]);
    return rows.map(([timer, due]) => ({ timer, due }));
  }

  async dropDamaged(execution: string, message: MailboxMessage | null): Promise<boolean> {
    const { hints, meta, side } = this.#parts;
    const partition = message === null ? null : partitionOf(message.to, meta.partitions);
    const posted =
      message === null
        ? [null, null, null]
        : [plainText(message.id), plainText(message.to), encodeText(message.body)];
    let isDropped = false;
    await this.#alone(execution, async () => {
      isDropped = (await this.#run("drop-damaged", [execution, partition, ...posted])).length > 0;
    });
    if (partition !== null) hints.mail([partition]);
    await side.sweep();
    return isDropped;
  }

  async auditTables({ repair }: { readonly repair: boolean }): Promise<TableFinding[]> {
    type Row = [project: string, workflow: string, status: string, kept: number, there: number];
    const lost = [...(await this.#auditHeads(repair)), ...(await this.#auditDefinitions(repair))];
    const wrong = await this.#run<Row>("wrong-counts", []);
    if (repair && wrong.length > 0) await this.#run("recount", []);
    const counts = wrong.map(([project, workflow, status, kept, there]) => ({
      table: "head_counts",
      message: `${project}/${workflow}: ${kept} executions are counted as ${status}; there are ${there}`,
      isRepaired: repair,
    }));
    return [...lost, ...counts, ...(await this.#auditWaiting(repair))];
  }

  async #auditWaiting(repair: boolean): Promise<TableFinding[]> {
    type Row = [project: string, workflow: string, kept: number, there: number];
    const wrong = await this.#run<Row>("wrong-waiting", []);
    if (repair && wrong.length > 0) await this.#run("recount-waiting", []);
    return wrong.map(([project, workflow, kept, there]) => ({
      table: "waiting_counts",
      message: `${project}/${workflow}: ${kept} executions are counted as waiting; there are ${there}`,
      isRepaired: repair,
    }));
  }

  async #auditHeads(repair: boolean): Promise<TableFinding[]> {
    const findings: TableFinding[] = [];
    for (const [e] of await this.#run<[e: number]>("lost-heads", [])) {
      const head = firstHead(await this.#firstRow(e), this.#parts.meta.partitions);
      findings.push(lostHead(e, head, repair && typeof head !== "string" && (await this.#putHead(e, head))));
    }
    return findings;
  }

  async #firstRow(e: number): Promise<Entry | null> {
    type Row = [seq: number, count: number, at: number, body: string];
    const rows = await orUnreadable(this.#run<Row>("first-row", [e]));
    if (rows instanceof UnreadableValue || rows[0] === undefined) return null;
    const [seq, count, at, body] = rows[0];
    return { seq, count, at, body: decodeText(body) };
  }

  /** Writes the head of an execution. Returns false if another execution has the same id now. */
  async #putHead(e: number, { id, partition, ...head }: Head): Promise<boolean> {
    const { workflow, hash, project, status, want, createdAt, tags } = head;
    const values = [e, plainText(id), partition, workflow, hash, project, status, want, createdAt];
    let isPut = false;
    await this.#alone(id, async () => {
      isPut = (await this.#run("put-head", [...values, encodeText(JSON.stringify(tags))])).length > 0;
    });
    return isPut;
  }

  async #auditDefinitions(repair: boolean): Promise<TableFinding[]> {
    const findings: TableFinding[] = [];
    for (const [name, hash] of await this.#run<[name: string, hash: string]>("lost-definitions", [])) {
      const rows = await orUnreadable(this.#run<[body: string]>("definition-body", [hash]));
      if (rows instanceof UnreadableValue || rows[0] === undefined) continue;
      const finding = lostDefinition({ name, hash, body: decodeText(rows[0][0]) }, repair);
      if (finding === null) continue;
      findings.push(finding);
      if (repair) await this.#run("point-to-definition", [name, hash]);
    }
    return findings;
  }

  /** Removes the execution from the cache, and runs `run` while no commit of this node runs. */
  #alone(execution: string, run: () => Promise<void>): Promise<void> {
    const { queue, knowledge } = this.#parts;
    return queue.alone(() => {
      knowledge.forget([execution]);
      return run();
    });
  }

  async #run<Row extends readonly unknown[]>(
    name: keyof typeof STATEMENTS,
    values: readonly Value[],
  ): Promise<Row[]> {
    const { links, meta } = this.#parts;
    return links.run<Row>({ name, text: STATEMENTS[name] }, [meta.generation, ...values], { writes: true });
  }
}
