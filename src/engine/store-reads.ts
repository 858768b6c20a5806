/** Performs the reads of a node: each output becomes a call of the store, whose result is the input that the node waits for. */
import { compilePlan, type Plan } from "../kernel/definition/plan.ts";
import { readDefinition } from "../kernel/definition/read-definition.ts";
import { FOLD_VERSION } from "../kernel/journal/snapshot.ts";
import { isRejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { Input, Output } from "./io.ts";

const NO_FOLD = -1;

const READS = [
  "load",
  "get-definition",
  "find-workflow",
  "read-page",
  "scan-work",
  "scan-timers",
  "scan-mailbox",
] as const;

export type ReadOutput = Extract<Output, { kind: (typeof READS)[number] }>;

export function isRead(output: Output): output is ReadOutput {
  return (READS as readonly string[]).includes(output.kind);
}

/** The methods of a store with which a node reads. A store in memory may return its answer instead of a promise. */
type ReadStore = {
  [M in "load" | "getDefinition" | "readJournal" | "scanWork" | "scanTimers" | "scanMail"]: (
    ...args: Parameters<Store[M]>
  ) => ReturnType<Store[M]> | Awaited<ReturnType<Store[M]>>;
};

type FoundPlan = { readonly plan: Plan | null; readonly damage?: string };

interface ReadOptions {
  readonly foldVersion?: number;
  /** Finds the plan of a definition. By default it compiles the stored definition. */
  readonly planOf?: (found: { readonly body: string } | null, hash: string) => FoundPlan;
}

/** Performs a read for the node. Returns a promise, unless the store answers without one. */
export function readFor(
  store: ReadStore,
  output: ReadOutput,
  { foldVersion = FOLD_VERSION, planOf = definitionOf }: ReadOptions = {},
): Input | Promise<Input> {
  switch (output.kind) {
    case "load": {
      const { ids, load, whole = false } = output;
      return after(store.load(ids, { foldVersion: whole ? NO_FOLD : foldVersion }), (loaded) => ({
        kind: "loaded",
        load,
        loads: ids.map((id, i) => ({ id, loaded: loaded[i] ?? null })),
      }));
    }
    case "get-definition": {
      const { hash } = output;
      return after(store.getDefinition({ hash }), (found) => ({
        kind: "definition",
        hash,
        ...planOf(found, hash),
      }));
    }
    case "find-workflow": {
      const { workflow } = output;
      return after(store.getDefinition({ newestOf: workflow }), (found) => ({
        kind: "workflow-found",
        workflow,
        plan: planOf(found, found?.hash ?? "").plan,
      }));
    }
    case "read-page": {
      const { execution, seq } = output;
      return after(store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 }), ([entry]) => ({
        kind: "page-read",
        execution,
        seq,
        entry: entry ?? null,
      }));
    }
    case "scan-work": {
      const { kind: _, ...scan } = output;
      return after(store.scanWork(scan), (heads) => ({ kind: "work-scanned", heads, each: scan.each }));
    }
    case "scan-timers": {
      const { kind: _, ...scan } = output;
      const { until, max } = scan;
      return after(store.scanTimers(scan), (timers) => ({ kind: "timers-scanned", timers, until, max }));
    }
    case "scan-mailbox": {
      const { kind: _, ...scan } = output;
      return after(store.scanMail(scan), (messages) => ({
        kind: "mailbox-scanned",
        messages,
        max: scan.max,
      }));
    }
  }
}

/** Applies a function to the answer of a store. If the answer is not a promise, the function is called at once. */
function after<T>(answer: T | Promise<T>, toInput: (value: T) => Input): Input | Promise<Input> {
  return answer instanceof Promise ? answer.then(toInput) : toInput(answer);
}

/** Returns the plan of a stored definition; null if the store has none, if it is damaged, or if this version of Rondo cannot read it. */
function definitionOf(found: { readonly body: string } | null, hash: string): FoundPlan {
  if (found === null) return { plan: null, damage: "the definition is not in the store" };
  const stored = readDefinition(found.body, hash);
  if (stored === null) return { plan: null, damage: "the stored definition does not match its hash" };
  return { plan: isRejection(stored) ? null : compilePlan(stored) };
}
