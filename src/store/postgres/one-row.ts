/**
 * The statements for a commit of one execution that appends one journal row, which is the most common commit. They do what
 * `write_commit_2` does for such a write, in less than half of the server's time.
 *
 * Before each of them, `LOCK` takes the shared lock of the partition, in the same request. The statement itself has a new snapshot,
 * so it sees an owner that took the partition before, and writes only if the fence holds. The result is the number of the execution, and the
 * last value, which is the number of the call. There
 * is no result, and nothing is written, if the fence refuses the write, or if the id of a new execution exists;
 * `write_commit_2` then finds the reason.
 */
import type { ExecutionWrite, Head } from "../store.ts";
import { changeOfHead, tagsText, type Written } from "./commit-columns.ts";
import type { Statement, Value } from "./link.ts";
import { encodeText, plainText } from "./text.ts";

/** Takes the shared lock of a partition. Taking or releasing the partition needs the exclusive lock. */
export const LOCK: Statement = {
  name: "lock",
  text: "SELECT pg_advisory_xact_lock_shared($1::int, $2::int)",
};

/** The condition of each write (the fence), with $1 to $4: the owner has the partition in this epoch, and the store is of this generation. */
const FENCED = `FROM partitions r, meta m
  WHERE r.partition = $1 AND r.epoch = $2 AND r.owner = $3 AND m.generation = $4`;
/** The journal row. $10 is the number of the execution, or the id of a new one; $11 and above belong to each statement. */
const ROW = "$5::int, $6::int, $7::bigint, $8::text, $9::text";
const INTO_JOURNAL = "INSERT INTO journal (e, seq, count, at, chain, body, phase)";

/** Appends a journal row; the head stays, except that the row may store another phase. */
export const APPEND_ONE = oneRow(
  "append one",
  `${INTO_JOURNAL} SELECT $10::bigint, ${ROW}, $11::text ${FENCED} RETURNING e, $12::int`,
);

/** Creates an execution with its first journal row. */
export const CREATE_ONE = oneRow(
  "create one",
  `WITH made AS (
    INSERT INTO executions (e, id, partition, epoch, workflow, hash, project, created_at, status, phase, want, priority,
      finished_at, tags, error)
    SELECT nextval('executions_e'), $10, r.partition, r.epoch, $18, $19, $20, $21::bigint, $11, $12, $13, $14::int,
      $15::bigint, $16, $17
    ${FENCED} AND (SELECT true FROM executions x WHERE x.id = $10 LIMIT 1) IS NULL
    RETURNING e
  )
  ${INTO_JOURNAL} SELECT e, ${ROW}, NULL FROM made RETURNING e, $22::int`,
);

/** Appends a journal row and writes the head. */
export const CHANGE_ONE = oneRow(
  "change one",
  `WITH changed AS (
    UPDATE executions x
    SET epoch = r.epoch, status = $11, phase = $12, want = $13, priority = $14, finished_at = $15, tags = $16, error = $17
    ${FENCED} AND x.e = $10
    RETURNING x.e
  )
  ${INTO_JOURNAL} SELECT e, ${ROW}, NULL FROM changed RETURNING e, $18::int`,
);

function oneRow(name: string, text: string): Statement {
  return { name, text, first: { statement: LOCK, valueCount: 2 } };
}

/** A call of one of these statements: its values after those of the lock and the fence. */
export interface OneRow {
  readonly statement: Statement;
  readonly values: readonly Value[];
}

/** Whether a write appends one journal row and does nothing else, except for writing the head. */
export function isOneRow(write: ExecutionWrite): boolean {
  return (
    write.entries.length === 1 &&
    write.timersSet.length === 0 &&
    write.timersCleared.length === 0 &&
    write.opened === null &&
    write.snapshot === null &&
    write.mail === undefined &&
    write.logs === undefined &&
    write.deadLetters === undefined &&
    (write.deadLettersCleared ?? 0) === 0
  );
}

/** Builds the call for a write. Also sets the fields of the execution that are cached after the call. */
export function oneRowCall(written: Written, write: ExecutionWrite): OneRow {
  const [entry] = write.entries as readonly [ExecutionWrite["entries"][number]];
  const { seq, count, at, body } = entry;
  written.end = seq + count - 1;
  written.head = write.head;
  written.lastRow = 0;
  const change = changeOfHead(written);
  const row = [seq, count, at, encodeText(write.chain), encodeText(body)];
  if (change === "phase") {
    const phase = written.phase === null ? null : plainText(written.phase);
    return { statement: APPEND_ONE, values: [...row, written.ref, phase] };
  }
  const head = write.head as Head;
  if (change === "whole")
    return { statement: CHANGE_ONE, values: [...row, written.ref, ...headValues(head)] };
  const { id, workflow, hash, project, createdAt } = head;
  const names = [plainText(workflow), plainText(hash), plainText(project), createdAt];
  return { statement: CREATE_ONE, values: [...row, plainText(id), ...headValues(head), ...names] };
}

function headValues({ status, phase, want, priority, finishedAt, tags, error }: Head): Value[] {
  return [
    ...[plainText(status), phase === null ? null : plainText(phase), want, priority, finishedAt],
    ...[tagsText({ tags }), error === null ? null : encodeText(error)],
  ];
}
