/** What the engine's thread asks of the store's thread, and what it gets back. */
import type { SearchWord } from "../search-terms.ts";
import type { Derived, Fence, HeadFilter, JournalRange, MailboxMessage, Swap } from "../store.ts";
import type { FaultReport } from "./faults.ts";
import type { Packed } from "./packed-commit.ts";

export type Call =
  | { readonly kind: "open"; readonly startedAt: number }
  | { readonly kind: "announce"; readonly listening: string }
  | {
      readonly kind: "commit";
      readonly fence: Fence;
      readonly writes: Packed;
      readonly lettersTaken?: readonly string[];
    }
  | {
      readonly kind: "load";
      readonly ids: readonly string[];
      readonly options: { readonly foldVersion?: number };
    }
  | { readonly kind: "readJournal"; readonly range: JournalRange }
  | { readonly kind: "scanWork"; readonly after: Readonly<Record<string, number>>; readonly each: number }
  | { readonly kind: "scanTimers"; readonly from?: number; readonly until: number; readonly max: number }
  | {
      readonly kind: "listHeads";
      readonly filter: HeadFilter;
      readonly options: { readonly before: number | null; readonly max: number };
    }
  | {
      readonly kind: "findOrders";
      readonly word: SearchWord;
      readonly options: { readonly before: number; readonly max: number };
    }
  | { readonly kind: "headsOf"; readonly orders: readonly number[] }
  | { readonly kind: "indexSome" }
  | { readonly kind: "clearIndex" }
  | { readonly kind: "scanLetters"; readonly after: number; readonly max: number }
  | {
      readonly kind: "readLogs";
      readonly execution: string;
      readonly after: number;
      readonly rowsMax: number;
    }
  | {
      readonly kind: "listDeadLetters";
      readonly filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string };
      readonly options: { readonly before: number | null; readonly max: number };
    }
  | { readonly kind: "dropDeadLetter"; readonly order: number; readonly tasks: readonly number[] | null }
  | { readonly kind: "countHeads"; readonly filter: Omit<HeadFilter, "status"> }
  | { readonly kind: "listEnded"; readonly finishedBefore: number; readonly max: number }
  | { readonly kind: "forget"; readonly ids: readonly string[] }
  | { readonly kind: "sweep" }
  | { readonly kind: "shrink" }
  | { readonly kind: "putDerived"; readonly derived: Derived }
  | { readonly kind: "timersOf"; readonly execution: string }
  | { readonly kind: "dropDamaged"; readonly execution: string; readonly letter: MailboxMessage | null }
  | { readonly kind: "auditTables"; readonly repair: boolean }
  | {
      readonly kind: "putDocument";
      readonly of: string;
      readonly id: string;
      readonly body: string | null;
    }
  | { readonly kind: "swapDocument"; readonly of: string; readonly id: string; readonly swap: Swap }
  | { readonly kind: "getDocument"; readonly of: string; readonly id: string }
  | {
      readonly kind: "listDocuments";
      readonly of: string;
      readonly options: { after?: string; before?: string; descending?: boolean; max: number };
    }
  | { readonly kind: "putDefinition"; readonly name: string; readonly hash: string; readonly body: string }
  | { readonly kind: "dropDefinition"; readonly name: string; readonly hash: string }
  | { readonly kind: "getDefinition"; readonly by: { hash: string } | { newestOf: string } }
  | { readonly kind: "listDefinitions"; readonly after: string; readonly max: number }
  | { readonly kind: "backup"; readonly file: string }
  | { readonly kind: "close"; readonly clean: boolean };

/** Calls are answered in their order, so an answer needs no name. */
export type Reply =
  | { readonly kind: "done"; readonly value: unknown }
  | { readonly kind: "failed"; readonly report: FaultReport }
  /** No answer: something failed between calls. */
  | { readonly kind: "broken"; readonly report: FaultReport }
  /** No answer: the store's files are not in their places any more, or are again (null). */
  | { readonly kind: "files"; readonly report: FaultReport | null };

/** Given to the thread when it starts. */
export interface ThreadData {
  readonly directory: string;
}
