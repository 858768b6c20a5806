/**
 * The part of the random operations about letters, logs, dead letters, documents and purges. Letters draw their ids
 * from few, so that some are stored twice and many are taken; attempts likewise, so that lines repeat.
 */
import fc from "fast-check";
import type { ExecutionWrite, LogRow, Store } from "../../src/store/store.ts";
import { logRow } from "./example-writes.ts";

type ListDeadLetters = Parameters<Store["listDeadLetters"]>;
type ListDocuments = Parameters<Store["listDocuments"]>;

export type RecordOperation =
  | { kind: "scanMail"; after: number; max: number; partitions: number[] | null }
  | { kind: "readLogs"; execution: string; after: number; rowsMax: number }
  | { kind: "listDeadLetters"; filter: ListDeadLetters[0]; before: number | null; max: number }
  | { kind: "dropDeadLetter"; order: number; tasks: number[] | null }
  | { kind: "listEnded"; finishedBefore: number; max: number }
  | { kind: "purge"; ids: string[] }
  | { kind: "putDocument"; of: string; id: string; body: string | null }
  | { kind: "getDocument"; of: string; id: string }
  | { kind: "listDocuments"; of: string; options: ListDocuments[1] }
  | { kind: "listDefinitions"; after: string; max: number };

/** What a write brings along; null: the field is absent. */
export interface AbstractRecords {
  letters: { id: string; to: string }[] | null;
  logs: { attempt: string; lines: number[]; mayRepeat: boolean }[] | null;
  deadLetters: number[][] | null;
  cleared: boolean | null;
}

/** The records as fields of a write that ends at `seq`. */
export function resolveRecords(abstract: AbstractRecords, seq: number): Partial<ExecutionWrite> {
  const { letters, logs, deadLetters, cleared } = abstract;
  return {
    ...(letters === null ? {} : { mail: letters.map(({ id, to }) => ({ id, to, body: `${id} at ${seq}` })) }),
    ...(logs === null ? {} : { logs: logs.map(resolveLog) }),
    ...(deadLetters === null ? {} : { deadLetters: deadLetters.map((tasks) => ({ seq, tasks })) }),
    ...(cleared === null ? {} : { deadLettersCleared: cleared ? Math.max(1, seq - 2) : 0 }),
  };
}

function resolveLog({
  attempt,
  lines,
  mayRepeat,
}: {
  attempt: string;
  lines: number[];
  mayRepeat: boolean;
}): LogRow {
  const row = logRow(lines, { attempt, mayRepeat });
  return {
    ...row,
    lines: row.lines.map((line) => (line.n % 2 === 0 ? line : { ...line, run: `run ${line.n}` })),
  };
}

/** Does it, and answers what the store answers. */
export async function performRecordOperation(store: Store, operation: RecordOperation): Promise<unknown> {
  switch (operation.kind) {
    case "scanMail":
      return store.scanMail(operation);
    case "readLogs":
      return store.readLogs(operation);
    case "listDeadLetters":
      return store.listDeadLetters(operation.filter, operation);
    case "dropDeadLetter":
      return store.dropDeadLetter(operation.order, operation.tasks);
    case "listEnded":
      return store.listEnded(operation);
    case "purge":
      return store.purge(operation.ids);
    case "putDocument":
      return store.putDocument(operation.of, operation.id, operation.body);
    case "getDocument":
      return store.getDocument(operation.of, operation.id);
    case "listDocuments":
      return store.listDocuments(operation.of, operation.options);
    case "listDefinitions":
      return store.listDefinitions(operation);
  }
}

const small = fc.integer({ min: 0, max: 9 });
const tasks = fc.uniqueArray(small, { minLength: 1, maxLength: 4 });

export const mailId = fc.constantFrom(...Array.from({ length: 12 }, (_, i) => `letter-${i}`));

export const records: fc.Arbitrary<AbstractRecords> = fc.record({
  letters: fc.option(
    fc.array(fc.record({ id: mailId, to: fc.constantFrom("e0", "e1", "e2", "nobody") }), { maxLength: 2 }),
  ),
  logs: fc.option(
    fc.array(
      fc.record({
        attempt: fc.constantFrom("one", "two"),
        lines: fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 4 }),
        mayRepeat: fc.boolean(),
      }),
      { maxLength: 3 },
    ),
  ),
  deadLetters: fc.option(fc.array(tasks, { maxLength: 2 })),
  cleared: fc.option(fc.constantFrom(false, false, false, true)),
});

const somePartitions = fc.uniqueArray(fc.integer({ min: 0, max: 3 }), { maxLength: 4 });

const of = fc.constantFrom("audit", "token");
const documentId = fc.constantFrom("a", "aa", "b", "B", "\u{1F600}", "\uFFFD");
const order = fc.integer({ min: 0, max: 30 });

/** Operations on executions with the given ids. */
export function recordOperations(id: fc.Arbitrary<string>): fc.Arbitrary<RecordOperation> {
  const kind = <K extends RecordOperation["kind"]>(name: K) => fc.constant(name);
  const filter = fc.record(
    { project: fc.constantFrom("p", "q", "\uFFFD"), workflow: fc.constantFrom("v", "w"), execution: id },
    { requiredKeys: [] },
  );
  const list = fc.record(
    { after: documentId, before: documentId, descending: fc.boolean(), max: small },
    { requiredKeys: ["max"] },
  );
  return fc.oneof(
    fc.record({ kind: kind("scanMail"), after: order, max: small, partitions: fc.option(somePartitions) }),
    fc.record({ kind: kind("readLogs"), execution: id, after: order, rowsMax: small }),
    fc.record({ kind: kind("listDeadLetters"), filter, before: fc.option(order), max: small }),
    fc.record({ kind: kind("dropDeadLetter"), order, tasks: fc.option(tasks) }),
    fc.record({ kind: kind("listEnded"), finishedBefore: small, max: small }),
    fc.record({ kind: kind("purge"), ids: fc.array(id, { maxLength: 3 }) }),
    fc.record({
      kind: kind("putDocument"),
      of,
      id: documentId,
      body: fc.option(fc.constantFrom("x", "", "\0y")),
    }),
    fc.record({ kind: kind("getDocument"), of, id: documentId }),
    fc.record({ kind: kind("listDocuments"), of, options: list }),
    fc.record({ kind: kind("listDefinitions"), after: fc.constantFrom("", "v", "w"), max: small }),
  );
}
