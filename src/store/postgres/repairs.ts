/**
 * What is written when something has been damaged: heads, timers and marks that follow from a journal, counts that follow from
 * heads; and damaged executions that are dropped. Each statement checks the generation ($1), as in side-writer.ts.
 */

import { partitionOf } from "../partition-of.ts";
import { DAMAGED, type Derived, type Letter, type TableFinding } from "../store.ts";
import type { CommitQueue } from "./commit-queue.ts";
import type { Meta } from "./database.ts";
import type { Hints } from "./hints.ts";
import type { Knowledge } from "./knowledge.ts";
import type { Value } from "./link.ts";
import type { Links } from "./links.ts";
import type { SideWriter } from "./side-writer.ts";
import { encodeText, joinNumbers, joinTexts, plainText } from "./text.ts";

const CHECKED = "check_generation_1($1) AS checked";

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
  // One statement is of one moment, and the counts are changed with the rows: so what differs is wrong.
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
} as const;

export interface RepairParts {
  readonly links: Links;
  readonly side: SideWriter;
  readonly queue: CommitQueue;
  readonly knowledge: Knowledge;
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
    // A row of another partition wakes nobody: it is as good as not there.
    const partition = partitionOf(execution, this.#parts.meta.partitions);
    const rows = await this.#run<[timer: string, due: number]>("timers", [execution, partition]);
    return rows.map(([timer, due]) => ({ timer, due }));
  }

  async dropDamaged(execution: string, letter: Letter | null): Promise<boolean> {
    const { hints, meta, side } = this.#parts;
    const partition = letter === null ? null : partitionOf(letter.to, meta.partitions);
    const posted =
      letter === null
        ? [null, null, null]
        : [plainText(letter.id), plainText(letter.to), encodeText(letter.body)];
    let isDropped = false;
    await this.#alone(execution, async () => {
      isDropped = (await this.#run("drop-damaged", [execution, partition, ...posted])).length > 0;
    });
    if (partition !== null) hints.letters([partition]);
    await side.sweep();
    return isDropped;
  }

  async auditTables({ repair }: { readonly repair: boolean }): Promise<TableFinding[]> {
    type Row = [project: string, workflow: string, status: string, kept: number, there: number];
    const wrong = await this.#run<Row>("wrong-counts", []);
    if (repair && wrong.length > 0) await this.#run("recount", []);
    return wrong.map(([project, workflow, status, kept, there]) => ({
      table: "head_counts",
      message: `${project}/${workflow}: ${kept} executions are counted as ${status}; there are ${there}`,
      isRepaired: repair,
    }));
  }

  /** While no commit of this node is under way, and what it knows of the execution is forgotten. */
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
