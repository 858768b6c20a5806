/**
 * Random operations for the differential test. An operation is plain data that says what it wants relative to the
 * store's state ("a write after the end of e3"); `resolveWrite` makes it concrete by a journal's end, so that most
 * commits are accepted and some are not.
 */
import fc from "fast-check";
import { partitionOf } from "../../src/store/partition-of.ts";
import type { ExecutionWrite, HeadFilter, Want } from "../../src/store/store.ts";
import { headOf } from "./example-writes.ts";
import {
  type AbstractRecords,
  mailId,
  type RecordOperation,
  recordOperations,
  records,
  resolveRecords,
} from "./random-records.ts";

export const IDS = ["e0", "e1", "e2", "e3", "e4", "\u{1F600}", "ß"];
const PROJECTS = ["p", "q", "\u{10FFFF}", "\uFFFD"];
const WORKFLOWS = ["v", "w"];

export type Operation =
  | { kind: "commit"; stale: Stale | null; writes: AbstractWrite[]; mailTaken: string[] }
  /** Commits that are issued at once; they are taken in their order. */
  | { kind: "together"; commits: (Operation & { kind: "commit" })[] }
  | { kind: "release"; partitions: number[]; clean: boolean }
  | { kind: "take"; partitions: number[] }
  | { kind: "load"; ids: string[]; foldVersion: number | undefined }
  | { kind: "readJournal"; id: string; from: number; to: number; rowsMax: number; charsMax: number }
  | { kind: "scanWork"; after: Record<string, number>; each: number; partitions: number[] | null }
  | { kind: "scanTimers"; until: number; max: number; partitions: number[] | null }
  | { kind: "listHeads"; filter: HeadFilter; before: number | null; max: number }
  | { kind: "putDefinition"; name: string; hash: string }
  | { kind: "getDefinition"; by: { hash: string } | { newestOf: string } }
  | RecordOperation
  | { kind: "restart"; clean: boolean };

/** The partition whose epoch is one of before, or is not in the fence at all. */
interface Stale {
  partition: number;
  isMissing: boolean;
}

interface AbstractWrite {
  id: string;
  create: boolean;
  /** Mostly 0; otherwise how far `after` is off. */
  off: number;
  rows: { count: number; body: string }[];
  head: {
    status: string;
    want: Want;
    phase: string | null;
    finishedAt: number | null;
    tags: Record<string, string>;
    error: string | null;
  };
  hasHead: boolean;
  timersSet: { timer: string; due: number }[];
  timersCleared: string[];
  opened: Record<string, number> | null;
  /** How far before the end, and whether its chain is the right one. */
  snapshot: { back: number; isRight: boolean; foldVersion: number } | null;
  records: AbstractRecords;
}

/** The write as concrete as the port wants it, for an execution that ends at `end` (null: there is none). */
export function resolveWrite(
  write: AbstractWrite,
  { end, partitions }: { end: number | null; partitions: number },
): ExecutionWrite {
  const number = IDS.indexOf(write.id);
  const create = write.create || (end === null && write.off === 0);
  const after = create ? 0 : Math.max(0, (end ?? 0) + write.off);
  let seq = after;
  const entries = write.rows.map(({ count, body }) => {
    const entry = { seq: seq + 1, count, at: 1_000 + seq, body };
    seq += count;
    return entry;
  });
  const head = headOf(write.id, {
    ...write.head,
    partition: partitionOf(write.id, partitions),
    project: PROJECTS[number % PROJECTS.length] ?? "p",
    workflow: WORKFLOWS[number % WORKFLOWS.length] ?? "v",
    createdAt: number,
  });
  const { snapshot } = write;
  const at = snapshot === null ? 0 : seq - snapshot.back;
  return {
    execution: write.id,
    create,
    after,
    entries,
    chain: `${write.id}:${seq}`,
    head: create || write.hasHead ? head : null,
    timersSet: write.timersSet,
    timersCleared: write.timersCleared,
    opened: write.opened,
    snapshot:
      snapshot === null
        ? null
        : {
            seq: at,
            foldVersion: snapshot.foldVersion,
            chain: snapshot.isRight ? `${write.id}:${at}` : "wrong",
            body: `state ${at}`,
          },
    ...resolveRecords(write.records, seq),
  };
}

const id = fc.constantFrom(...IDS);
const text = fc.string({ unit: "binary", maxLength: 8 }).map((value) => value.toWellFormed());
const timer = fc.constantFrom("t", "u", "\u{1F600}", "\uFFFD");
const status = fc.constantFrom("running", "paused", "failed", "done");
const small = fc.integer({ min: 0, max: 9 });

const write: fc.Arbitrary<AbstractWrite> = fc.record({
  id,
  create: fc.constantFrom(false, false, false, false, true),
  off: fc.constantFrom(...Array.from({ length: 20 }, () => 0), -1, 1),
  rows: fc.array(fc.record({ count: fc.integer({ min: 1, max: 3 }), body: text }), { maxLength: 3 }),
  head: fc.record({
    status,
    want: fc.constantFrom<Want>("work", "time", "nothing"),
    phase: fc.constantFrom("one", "two", null),
    finishedAt: fc.option(small),
    tags: fc.dictionary(fc.constantFrom("a", "b"), text, { maxKeys: 2 }),
    error: fc.option(text),
  }),
  hasHead: fc.boolean(),
  timersSet: fc.uniqueArray(fc.record({ timer, due: small }), { selector: (set) => set.timer, maxLength: 2 }),
  timersCleared: fc.uniqueArray(timer, { maxLength: 2 }),
  opened: fc.option(fc.dictionary(fc.constantFrom("p.1.h", "p.2.h", "q.1.h"), small)),
  snapshot: fc.option(
    fc.record({
      back: fc.integer({ min: 0, max: 3 }),
      isRight: fc.constantFrom(true, true, false),
      foldVersion: fc.constantFrom(1, 2),
    }),
  ),
  records,
});

const somePartitions = fc.uniqueArray(fc.integer({ min: 0, max: 3 }), { maxLength: 4 });

const workAfter = fc.dictionary(
  fc.constantFrom(...PROJECTS.flatMap((project) => WORKFLOWS.map((workflow) => `${project}/${workflow}`))),
  fc.integer({ min: 0, max: 4 }),
);

const filter = fc.record(
  { project: fc.constantFrom(...PROJECTS), workflow: fc.constantFrom(...WORKFLOWS), status },
  { requiredKeys: [] },
);

const commit = (writesMax: number): fc.Arbitrary<Operation & { kind: "commit" }> =>
  fc.record({
    kind: fc.constant("commit" as const),
    stale: fc.oneof(
      { weight: 19, arbitrary: fc.constant(null) },
      {
        weight: 1,
        arbitrary: fc.record({ partition: fc.integer({ min: 0, max: 3 }), isMissing: fc.boolean() }),
      },
    ),
    writes: fc.array(write, { maxLength: writesMax }),
    mailTaken: fc.array(mailId, { maxLength: 2 }),
  });

export const operations: fc.Arbitrary<Operation[]> = fc.array(
  fc.oneof(
    { weight: 10, arbitrary: commit(5) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant("together" as const),
        commits: fc.array(commit(2), { minLength: 2, maxLength: 5 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("load" as const),
        ids: fc.array(id, { maxLength: 4 }),
        foldVersion: fc.constantFrom(undefined, 1, 2),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("readJournal" as const),
        id,
        from: fc.integer({ min: 0, max: 20 }),
        to: fc.integer({ min: 0, max: 30 }),
        rowsMax: small,
        charsMax: fc.integer({ min: 0, max: 40 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("scanWork" as const),
        after: workAfter,
        each: small,
        partitions: fc.option(somePartitions),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant("scanTimers" as const),
        until: small,
        max: small,
        partitions: fc.option(somePartitions),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("listHeads" as const),
        filter,
        before: fc.option(small),
        max: small,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("putDefinition" as const),
        name: fc.constantFrom("v", "w"),
        hash: fc.constantFrom("h1", "h2", "h3"),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("getDefinition" as const),
        by: fc.constantFrom({ hash: "h1" }, { hash: "h2" }, { newestOf: "v" }, { newestOf: "w" }),
      }),
    },
    { weight: 12, arbitrary: recordOperations(id) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("release" as const),
        partitions: somePartitions,
        clean: fc.boolean(),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("take" as const), partitions: somePartitions }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("restart" as const), clean: fc.boolean() }) },
  ),
  { minLength: 5, maxLength: 60, size: "max" },
);
