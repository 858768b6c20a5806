/**
 * The column arrays for one call of the SQL function `write_commit_2`, built from writes in their order. Several writes of one
 * execution are merged.
 */
import { assert } from "../../std/assert.ts";
import { packLog } from "../packed-log.ts";
import type { DeadLetter, ExecutionWrite, Head, LogRow, MailboxMessage, Snapshot } from "../store.ts";
import type { Statement, Value } from "./link.ts";
import {
  Column,
  encodeText,
  joinNumbers,
  joinNumbersOrOnce,
  joinOrOnce,
  joinTexts,
  plainText,
} from "./text.ts";

export interface Written {
  readonly id: string;
  readonly partition: number;
  readonly epoch: number;
  /** The number of the execution. For a new execution it is negative: its place among the created ones. */
  readonly ref: number;
  end: number;
  /** Whether the execution was last written in this epoch, or this call creates it. */
  isTouched: boolean;
  head: Head | null;
  /** A text of all fields of the execution's head except the phase, for comparison; null if it is unknown. */
  headKey: string | null;
  /** The phase of the execution if it is stored with the journal rows; null if it is stored in the head. */
  phase: string | null;
  /** The index of the execution's last journal row in the call; -1 if it has none. */
  lastRow: number;
  timers: Map<string, number | null> | null;
  opened: Map<string, number> | null;
  snapshot: Snapshot | null;
  /** Indexes of the execution's dead letters in the call. They are needed if a later write clears the dead letters again. */
  dead: number[] | null;
}

export class CommitColumns {
  readonly #texts: Record<string, Column<string>> = {};
  readonly #numbers: Record<string, Column<number>> = {};
  readonly #letterIds = new Set<string>();
  readonly #written: Written[] = [];
  #created = 0;

  constructor() {
    for (const name of TEXTS) this.#texts[name] = new Column();
    for (const name of NUMBERS) this.#numbers[name] = new Column();
  }

  get createdCount(): number {
    return this.#created;
  }

  nextRef(): number {
    return -++this.#created;
  }

  begin(written: Written): void {
    this.#written.push(written);
  }

  /** Adds a write, except its logs and mailbox messages. */
  add(written: Written, write: ExecutionWrite): void {
    const { entries } = write;
    const last = entries.length - 1;
    const { j_ref, j_seq, j_count, j_at } = this.#numbers as Columns<number>;
    const { j_chain, j_body, j_phase } = this.#texts as Columns<string>;
    for (let i = 0; i <= last; i++) {
      const { seq, count, at, body } = entries[i] as (typeof entries)[number];
      j_ref.push(written.ref);
      j_seq.push(seq);
      j_count.push(count);
      j_at.push(at);
      j_chain.push(i === last ? encodeText(write.chain) : null);
      j_body.push(encodeText(body));
      written.lastRow = j_phase.push(null) - 1;
      written.end = seq + count - 1;
    }
    if (write.head !== null) written.head = write.head;
    if (write.timersCleared.length > 0 || write.timersSet.length > 0) noteTimers(written, write);
    if (write.opened !== null) {
      written.opened ??= new Map();
      for (const mark in write.opened) written.opened.set(mark, write.opened[mark] as number);
    }
    if (write.snapshot !== null) written.snapshot = write.snapshot;
    if ((write.deadLettersCleared ?? 0) > 0) this.#clearDead(written, write.deadLettersCleared as number);
    if (write.deadLetters !== undefined) for (const dead of write.deadLetters) this.#addDead(written, dead);
  }

  addMessage(written: Written, { id, to, body }: MailboxMessage, partition: number): void {
    if (this.#letterIds.has(id)) return;
    this.#letterIds.add(id);
    this.#push("m_ref", written.ref);
    this.#push("m_partition", partition);
    this.#pushText("m_id", plainText(id));
    this.#pushText("m_recipient", plainText(to));
    this.#pushText("m_body", encodeText(body));
  }

  /** Adds a log row with at least one line; `lastN` is the number of its last line. */
  addLog(written: Written, row: LogRow, lastN: number): void {
    this.#push("g_ref", written.ref);
    this.#push("g_last_n", lastN);
    this.#pushText("g_attempt", plainText(row.attempt));
    this.#pushText("g_body", encodeText(packLog(row)));
  }

  /** Returns all values of the call; `fixed` has the values that are not columns. */
  values(fixed: Readonly<Record<string, Value>>): Value[] {
    for (const written of this.#written) this.#finish(written);
    const given: Record<string, Value> = {
      ...fixed,
      has_marks: this.#has(MARKS),
      has_records: this.#has(RECORDS),
    };
    for (const name of TEXTS) {
      const texts = this.#texts[name] as Column<string>;
      given[name] = name.endsWith("_id") ? joinTexts(texts.values) : joinOrOnce(texts);
    }
    for (const name of NUMBERS) {
      const numbers = this.#numbers[name] as Column<number>;
      given[name] = ONCE.has(name) ? joinNumbersOrOnce(numbers) : joinNumbers(numbers.values);
    }
    return PARAMETERS.map((name) => given[name] ?? null);
  }

  #finish(written: Written): void {
    const { ref, head, timers, opened, snapshot } = written;
    const change = changeOfHead(written);
    if (change === "created") this.#create(written, head as Head);
    else if (change === "whole") this.#changeHead(written, head as Head);
    else {
      if (written.phase !== null && written.lastRow >= 0)
        (this.#texts["j_phase"] as Column<string>).set(written.lastRow, plainText(written.phase));
      if (!written.isTouched) this.#touch(written);
    }
    if (timers !== null) for (const [timer, due] of timers) this.#addTimer(written, timer, due);
    if (opened !== null)
      for (const [mark, tasks] of opened) {
        this.#push("o_ref", ref);
        this.#push("o_tasks", tasks);
        this.#pushText("o_mark", plainText(mark));
      }
    if (snapshot !== null) {
      this.#push("s_ref", ref);
      this.#push("s_seq", snapshot.seq);
      this.#push("s_fold_version", snapshot.foldVersion);
      this.#pushText("s_chain", encodeText(snapshot.chain));
      this.#pushText("s_body", encodeText(snapshot.body));
    }
  }

  #touch({ ref, epoch }: Written): void {
    this.#push("t_e", ref);
    this.#push("t_epoch", epoch);
  }

  #create(written: Written, head: Head): void {
    const { partition, epoch } = written;
    this.#push("c_partition", partition);
    this.#push("c_epoch", epoch);
    this.#push("c_created_at", head.createdAt);
    this.#pushText("c_id", plainText(head.id));
    this.#pushText("c_workflow", plainText(head.workflow));
    this.#pushText("c_hash", plainText(head.hash));
    this.#pushText("c_project", plainText(head.project));
    this.#pushHead("c", head);
  }

  #changeHead(written: Written, head: Head): void {
    const { ref, epoch } = written;
    this.#push("h_e", ref);
    this.#push("h_epoch", epoch);
    this.#pushHead("h", head);
  }

  #pushHead(table: "c" | "h", head: Head): void {
    this.#push(`${table}_priority`, head.priority);
    this.#push(`${table}_finished_at`, head.finishedAt);
    this.#pushText(`${table}_status`, plainText(head.status));
    this.#pushText(`${table}_phase`, head.phase === null ? null : plainText(head.phase));
    this.#pushText(`${table}_want`, head.want);
    this.#pushText(`${table}_tags`, tagsText(head));
    this.#pushText(`${table}_error`, head.error === null ? null : encodeText(head.error));
  }

  #addTimer({ ref, partition }: Written, timer: string, due: number | null): void {
    if (due === null) {
      if (ref < 0) return;
      this.#push("tc_e", ref);
      this.#pushText("tc_timer", plainText(timer));
      return;
    }
    this.#push("ts_ref", ref);
    this.#push("ts_due", due);
    this.#push("ts_partition", partition);
    this.#pushText("ts_timer", plainText(timer));
  }

  #addDead(written: Written, { seq, tasks }: DeadLetter): void {
    written.dead ??= [];
    written.dead.push(this.#push("d_ref", written.ref));
    this.#push("d_seq", seq);
    this.#pushText("d_tasks", JSON.stringify(tasks));
  }

  #clearDead(written: Written, from: number): void {
    const { d_ref, d_seq } = this.#numbers;
    for (const place of written.dead ?? []) if ((d_seq?.values[place] ?? 0) >= from) d_ref?.set(place, 0);
    if (written.ref <= 0) return;
    this.#push("dc_e", written.ref);
    this.#push("dc_seq", from);
  }

  #has(names: readonly string[]): boolean {
    return names.some((name) => (this.#numbers[name] as Column<number>).length > 0);
  }

  #push(name: string, value: number | null): number {
    return (this.#numbers[name] as Column<number>).push(value) - 1;
  }

  #pushText(name: string, value: string | null): void {
    (this.#texts[name] as Column<string>).push(value);
  }
}

type Columns<T> = Record<string, Column<T>> &
  Record<"j_ref" | "j_seq" | "j_count" | "j_at", Column<T>> &
  Record<"j_chain" | "j_body" | "j_phase", Column<T>>;

/** Returns the tags of a head as encoded JSON text. */
export function tagsText({ tags }: Pick<Head, "tags">): string {
  return isEmpty(tags) ? "{}" : encodeText(JSON.stringify(tags));
}

/** Returns a text of all fields of a head except the phase. Equal texts mean that nothing else has changed. */
export function headKey({ status, want, priority, finishedAt, tags, error }: Head): string {
  if (priority === 0 && finishedAt === null && error === null && isEmpty(tags)) return plainKey(status, want);
  return JSON.stringify([status, want, priority, finishedAt, error, tags]);
}

/** Returns one shared string for equal keys, because many executions are cached and most of them have one of a few keys. */
function plainKey(status: string, want: string): string {
  let keys = plainKeys.get(status);
  if (keys === undefined) plainKeys.set(status, (keys = new Map()));
  let key = keys.get(want);
  if (key === undefined) keys.set(want, (key = `${status}/${want}`));
  return key;
}
const plainKeys = new Map<string, Map<string, string>>();

function isEmpty(record: object): boolean {
  for (const _ in record) return false;
  return true;
}

/**
 * Decides how a call changes the head of an execution, and sets the cached fields. "phase": at most the phase changes, and the
 * last journal row stores it. "whole": all fields are written.
 */
export function changeOfHead(written: Written): "created" | "whole" | "phase" {
  const { ref, head } = written;
  const isNew = ref < 0;
  if (!isNew && (head === null || isOfPhase(written, head))) {
    if (head !== null) written.phase = head.phase;
    return "phase";
  }
  const whole = head as Head;
  assert(
    isNew || written.lastRow >= 0 || written.phase === null || written.phase === whole.phase,
    "phases change by events",
  );
  written.headKey = headKey(whole);
  if (!isNew && written.lastRow >= 0) written.phase = null;
  return isNew ? "created" : "whole";
}

/** Whether only the phase of the head changes, so that the journal row can store it and the head is not written. */
function isOfPhase({ headKey: key, lastRow }: Written, head: Head): boolean {
  return lastRow >= 0 && head.phase !== null && key !== null && key === headKey(head);
}

function noteTimers(written: Written, { timersCleared, timersSet }: ExecutionWrite): void {
  written.timers ??= new Map();
  for (const timer of timersCleared) written.timers.set(timer, null);
  for (const { timer, due } of timersSet) written.timers.set(timer, due);
}

const TEXTS =
  `c_id c_workflow c_hash c_project c_status c_phase c_want c_tags c_error j_chain j_body j_phase h_status h_phase
  h_want h_tags h_error tc_timer ts_timer o_mark s_chain s_body m_id m_recipient m_body g_attempt g_body
  d_tasks`.split(/\s+/);
const MARKS = ["tc_e", "ts_ref", "o_ref", "s_ref"];
const RECORDS = ["m_ref", "g_ref", "dc_e", "d_ref"];
const NUMBERS =
  `c_partition c_epoch c_priority c_created_at c_finished_at j_ref j_seq j_count j_at h_e h_epoch
  h_priority h_finished_at t_e t_epoch ts_due ts_partition o_tasks s_seq s_fold_version m_partition g_last_n dc_seq d_seq`
    .split(/\s+/)
    .concat(MARKS, RECORDS);
/** Columns of numbers that are sent as a single value if the value is the same in all rows. */
const ONCE = new Set(`c_epoch c_priority c_created_at j_seq j_count j_at h_epoch h_priority`.split(" "));
const FIXED = ["p_lock", "p_generation", "p_owner", "p_partitions", "p_epochs", "p_skipped", "p_taken"];
const PARAMETERS = [...FIXED, "has_marks", "has_records", ...TEXTS, ...NUMBERS];

export const WRITE: Statement = {
  name: "write",
  text: `SELECT refused, created, touched, $${PARAMETERS.length + 1}::int
    FROM write_commit_2(${PARAMETERS.map((name, i) => `${name} => $${i + 1}`).join(", ")})`,
};
