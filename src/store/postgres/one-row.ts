/**
 * Builds the call of the SQL function `write_one_1`, which appends one journal row to one execution. The write may also create
 * or end the execution, or change its head.
 */
import type { ExecutionWrite, Head } from "../store.ts";
import { changeOfHead, tagsText, type Written } from "./commit-columns.ts";
import type { Statement, Value } from "./link.ts";
import { encodeText, plainText } from "./text.ts";

const FENCE_VALUES = 5;
const ROW_VALUES = 7;
const HEAD_VALUES = 12;
const NO_HEAD: readonly Value[] = new Array<null>(HEAD_VALUES).fill(null);
const VALUES = FENCE_VALUES + ROW_VALUES + HEAD_VALUES;

export const WRITE_ONE: Statement = {
  name: "write one",
  text: `SELECT write_one_1(${Array.from({ length: VALUES }, (_, i) => `$${i + 1}`).join(", ")})`,
};

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

/** Returns the values of the call, except those of the fence. Also sets the fields of the execution that are cached after the call. */
export function oneRowValues(written: Written, write: ExecutionWrite): Value[] {
  const [entry] = write.entries as readonly [ExecutionWrite["entries"][number]];
  const { seq, count, at, body } = entry;
  written.end = seq + count - 1;
  written.head = write.head;
  written.lastRow = 0;
  const change = changeOfHead(written);
  const e = change === "created" ? null : written.ref;
  const phase = change === "phase" && written.phase !== null ? plainText(written.phase) : null;
  return [
    ...[e, seq, count, at, encodeText(write.chain), encodeText(body), phase],
    ...(change === "phase" ? NO_HEAD : headValues(write.head as Head)),
  ];
}

function headValues(head: Head): Value[] {
  const { id, workflow, hash, project, createdAt, status, phase, want, priority, finishedAt } = head;
  return [
    ...[plainText(id), plainText(workflow), plainText(hash), plainText(project), createdAt],
    ...[plainText(status), phase === null ? null : plainText(phase), want, priority, finishedAt],
    ...[tagsText(head), head.error === null ? null : encodeText(head.error)],
  ];
}
