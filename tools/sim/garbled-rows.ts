/**
 * Journal rows that the disk returns garbled, until they are restored. Nodes with the execution in memory do not notice. A node
 * that reads the row must mark the execution as damaged, and no other execution may suffer.
 */
import type { Input } from "../../src/engine/io.ts";
import { checkedEntry, type Entry } from "../../src/kernel/journal/journal-entry.ts";
import type { SeededRandom } from "../../src/std/random.ts";
import type { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { DAMAGED, type LoadedExecution, type StoredHead } from "../../src/store/store.ts";
import { must } from "./trace.ts";
import type { World } from "./world.ts";

/** The share of runs with garbled rows, and their frequency in such a run. */
const SHARE = 0.2;
const EVERY_MS = 4_000;

export class GarbledRows {
  readonly #tables: MemoryTables;
  /** The first event of the garbled row, by execution. */
  readonly #rows = new Map<string, number>();
  /** Executions that ever had such a row. */
  readonly #ever = new Set<string>();
  /** Executions that were marked as damaged while they had such a row. */
  readonly #marked = new Set<string>();

  constructor(tables: MemoryTables) {
    this.#tables = tables;
  }

  /** In some runs, garbles rows of open executions now and then. */
  schedule(world: World, random: SeededRandom): void {
    if (!random.chance(SHARE)) return;
    const next = (): void =>
      world.timeline.after(random.below(EVERY_MS * 2), () => {
        if (!world.has("garbled-rows")) return;
        this.#garbleOne(world, random);
        next();
      });
    next();
  }

  #garbleOne(world: World, random: SeededRandom): void {
    const { ledger, trace, timeline } = world;
    ledger.sync();
    const open = [...ledger.models].filter(({ id, isOver }) => !isOver && !this.#rows.has(id));
    if (open.length === 0) return;
    const { id } = random.pick(open);
    const { seq } = random.pick(this.#tables.readJournal({ execution: id, from: 1 }));
    this.#rows.set(id, seq);
    this.#ever.add(id);
    world.count("row garbled");
    trace.note(timeline.now, `garbled ${id} row ${seq}`);
  }

  /** Restores all rows. */
  restore(): void {
    this.#rows.clear();
    this.#marked.clear();
  }

  /** Reads all executions that are still marked as damaged, so that they go on. */
  rereadDamaged({ site }: World): void {
    for (const { id } of this.#tables.listHeads({ status: DAMAGED }, { before: null, max: 99 }))
      site.toAll({ kind: "inspect", request: 0, execution: id });
  }

  has(execution: string): boolean {
    return this.#rows.has(execution);
  }

  /** Whether a load without the whole journal reads the damaged row. */
  isIn({ head, entries }: LoadedExecution): boolean {
    const seq = this.#rows.get(head.id);
    return entries.some((entry) => entry.seq === seq);
  }

  /** Whether an execution may be shown as damaged: a node may have read it before its row was restored. */
  mayBeDamaged(execution: string): boolean {
    return this.#ever.has(execution);
  }

  /** The answer of a read as the disk returns it, and the executions that the node must mark as damaged. */
  read(answer: Input): { readonly answer: Input; readonly damaged: readonly string[] } {
    if (answer.kind === "loaded") {
      const damaged: string[] = [];
      const loads = answer.loads.map(({ id, loaded }) => {
        const read = loaded === null ? null : this.#load(loaded);
        if (read !== null && read !== loaded) damaged.push(id);
        return { id, loaded: read };
      });
      return { answer: { ...answer, loads }, damaged };
    }
    if (answer.kind !== "page-read" || answer.entry === null) return { answer, damaged: [] };
    return { answer: { ...answer, entry: this.#entry(answer.execution, answer.entry) }, damaged: [] };
  }

  #load(loaded: LoadedExecution): LoadedExecution {
    const { id } = loaded.head;
    const seq = this.#rows.get(id);
    if (!loaded.entries.some((entry) => entry.seq === seq)) return loaded;
    return { ...loaded, entries: loaded.entries.map((entry) => this.#entry(id, entry)) };
  }

  #entry(execution: string, entry: Entry): Entry {
    if (this.#rows.get(execution) !== entry.seq) return entry;
    return checkedEntry({ ...entry, body: entry.body.replace('"kind"', '"kinb"') }, execution);
  }

  /** Called when a node marks an execution as damaged. */
  checkDamaged(head: Pick<StoredHead, "id" | "error">): void {
    must(this.mayBeDamaged(head.id), `${head.id}: is called damaged, and nothing damaged it: ${head.error}`);
    if (this.#rows.has(head.id)) this.#marked.add(head.id);
  }

  /** Called when the single node grants work of an execution. */
  checkGrant(execution: string): void {
    must(!this.#marked.has(execution), `${execution}: is given out while it is damaged`);
  }
}
