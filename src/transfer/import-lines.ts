/** Imports lines into an empty store that this process owns. Other processes cannot see the store before all lines are imported. */
import { extendChain } from "../engine/commit/journal-chain.ts";
import { unreachable } from "../std/assert.ts";
import { partitionOf } from "../store/partition-of.ts";
import { REMOTE_MARK } from "../store/remote-epoch.ts";
import {
  type ExecutionWrite,
  type Fence,
  fenceOf,
  type LoadedExecution,
  StoreFault,
} from "../store/store.ts";
import { type Line, type LineOf, wrongLine } from "./line.ts";
import type { OwnedStore } from "./owned-store.ts";

/** The most writes in one commit, and the most characters. */
const WRITES_MAX = 500;
const CHARS_MAX = 2_097_152;
/** The most executions whose last event numbers are kept in memory. The others are read again, a few at a time. */
const ENDS_MAX = 100_000;
const LOOKED_UP = 32;

/** The execution whose lines the import is reading. */
interface Current {
  readonly id: string;
  /** The number of the last event that was read. */
  end: number;
  chain: string;
  /** The line with the execution's head; null once the first page of its journal was written. */
  line: LineOf<"execution"> | null;
}

export class LineImporter {
  readonly #owned: OwnedStore;
  readonly #fence: Fence;
  readonly #ends = new Map<string, number>();
  #current: Current | null = null;
  #remote = false;
  #writes: ExecutionWrite[] = [];
  #chars = 0;
  #number = 0;

  constructor(owned: OwnedStore) {
    this.#owned = owned;
    this.#fence = fenceOf(owned.info);
  }

  async add(line: Line): Promise<void> {
    this.#number++;
    const { store } = this.#owned;
    switch (line.kind) {
      case "header":
        this.#remote = line.remote;
        return;
      case "definition":
        return store.putDefinition(line.name, line.hash, line.body);
      case "document":
        return store.putDocument(line.of, line.id, line.body);
      case "execution":
        this.#closeCurrent();
        this.#current = { id: line.head.id, end: 0, chain: "", line };
        return;
      case "journal":
        return this.#addPage(line);
      case "snapshot": {
        const { id, end: seq, chain } = this.#begun();
        const { foldVersion, body } = line;
        return this.#write({ ...bare(id, seq), chain, snapshot: { seq, foldVersion, chain, body } });
      }
      case "logs": {
        const { id, end } = this.#begun();
        return this.#write({
          ...bare(id, end),
          logs: line.rows.map((row) => ({ ...row, mayRepeat: false })),
        });
      }
      case "dead-letters":
        return this.#addLate(line.rows, ({ seq, tasks }) => ({ deadLetters: [{ seq, tasks }] }));
      case "timers":
        return this.#addLate(line.rows, ({ timer, due }) => ({ timersSet: [{ timer, due }] }));
      case "letters": {
        this.#closeCurrent();
        const [carrier] = this.#ends;
        // If the export has no executions, it can have no mail either, because mail has a sender and a receiver.
        if (carrier === undefined) return;
        return this.#write({ ...bare(...carrier), mail: line.rows });
      }
      case "end":
        return;
      default:
        return unreachable(line);
    }
  }

  /** Writes the remaining rows, and the data that the last owner left for the next one. */
  async finish(): Promise<void> {
    this.#closeCurrent();
    await this.#flush();
    const { store, info } = this.#owned;
    if (this.#remote) {
      const epoch = Math.max(...info.owned.map((own) => own.epoch));
      await store.putDocument(REMOTE_MARK.of, REMOTE_MARK.id, JSON.stringify({ epoch }));
    }
    await this.#owned.confirm();
  }

  async #addPage({ entries }: LineOf<"journal">): Promise<void> {
    const current = this.#current;
    if (current === null)
      throw wrongLine(this.#number, "a page of a journal comes before the line of its execution");
    const after = current.end;
    for (const { seq, count } of entries) {
      if (seq !== current.end + 1)
        throw wrongLine(this.#number, `the journal of ${current.id} has a gap before event ${seq}`);
      current.end = seq + count - 1;
    }
    current.chain = extendChain(current.chain, entries);
    const write = { ...bare(current.id, after), entries, chain: current.chain };
    const { line } = current;
    current.line = null;
    if (line === null) return this.#write(write);
    const partition = partitionOf(current.id, this.#owned.info.partitions);
    return this.#write({ ...write, create: true, head: { ...line.head, partition }, opened: line.opened });
  }

  /** Returns the execution that is being imported. Throws if none of its journal was read yet. */
  #begun(): Current {
    const current = this.#current;
    if (current === null || current.line !== null)
      throw wrongLine(this.#number, "a line about an execution comes before its journal");
    return current;
  }

  #closeCurrent(): void {
    if (this.#current === null) return;
    const { id, end } = this.#begun();
    if (this.#ends.size >= ENDS_MAX) this.#ends.clear();
    this.#ends.set(id, end);
    this.#current = null;
  }

  /** Adds rows of executions that were imported completely before. Each row is a separate write, in order. */
  async #addLate<Row extends { readonly execution: string }>(
    rows: readonly Row[],
    content: (row: Row) => Partial<ExecutionWrite>,
  ): Promise<void> {
    this.#closeCurrent();
    await this.#lookUp(new Set(rows.map(({ execution }) => execution)));
    for (const row of rows) {
      const end = this.#ends.get(row.execution);
      if (end === undefined)
        throw wrongLine(this.#number, `there is no execution ${row.execution} in this export`);
      await this.#write({ ...bare(row.execution, end), ...content(row) });
    }
  }

  /** Reads the numbers of the last events of these executions. */
  async #lookUp(wanted: ReadonlySet<string>): Promise<void> {
    if (this.#ends.size + wanted.size > ENDS_MAX) this.#ends.clear();
    const ids = [...wanted].filter((id) => !this.#ends.has(id));
    if (ids.length > 0) await this.#flush();
    for (let from = 0; from < ids.length; from += LOOKED_UP)
      for (const loaded of await this.#owned.store.load(ids.slice(from, from + LOOKED_UP)))
        if (loaded !== null) this.#ends.set(loaded.head.id, endOf(loaded));
  }

  async #write(write: ExecutionWrite): Promise<void> {
    this.#writes.push(write);
    this.#chars += write.snapshot?.body.length ?? 0;
    for (const { body } of [...write.entries, ...(write.mail ?? [])]) this.#chars += body.length;
    for (const { lines } of write.logs ?? []) for (const { text } of lines) this.#chars += text.length;
    if (this.#writes.length >= WRITES_MAX || this.#chars >= CHARS_MAX) await this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#writes.length === 0) return;
    const writes = this.#writes;
    this.#writes = [];
    this.#chars = 0;
    const verdict = await this.#owned.store.commit({ fence: this.#fence, writes });
    if (verdict.kind === "ok" && verdict.fenced.length === 0) {
      const [twice] = verdict.exists;
      if (twice === undefined) return;
      throw wrongLine(this.#number, `execution ${twice} is in this export twice`);
    }
    throw new StoreFault("another process took the store during the import", {
      retryable: false,
      nothingWritten: false,
    });
  }
}

/** Makes an empty write for an execution. The caller adds the content. */
function bare(execution: string, after: number): ExecutionWrite {
  return {
    execution,
    create: false,
    after,
    entries: [],
    chain: "",
    head: null,
    timersSet: [],
    timersCleared: [],
    opened: null,
    snapshot: null,
  };
}

function endOf({ entries, snapshot }: LoadedExecution): number {
  const last = entries.at(-1);
  return last === undefined ? (snapshot?.seq ?? 0) : last.seq + last.count - 1;
}
