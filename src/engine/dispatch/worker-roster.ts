/**
 * The workers this node serves: what each can do, how much it holds, and whether one task has it for itself. Where code is
 * served in several versions, the highest one that fits gets the work.
 */
import { maxSatisfying, prerelease, rcompare, valid } from "semver";
import { SCRIPT_USE, type Wanted } from "../../kernel/definition/plan.ts";
import type { Serves } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import type { JoinOptions } from "../io.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** How long others are held back for a task that must run alone: while it waits for an empty worker, and once it runs. */
const ALONE_WAIT_MS = 1_000;
const ALONE_RUN_MS = 10_000;

export interface Alone {
  readonly kind: "waiting" | "taken";
  readonly until: number;
  readonly slot: Slot;
  readonly queue: HandlerQueue;
  /** Removed from the queue while it waits. */
  readonly task: number;
}

export class RosterEntry {
  readonly id: string;
  readonly local: boolean;
  /** It gets tasks of this project only; null: of all. */
  readonly project: string | null;
  /** It has an address of its own where it can be asked about an attempt. */
  readonly canBeAsked: boolean;
  readonly serves: readonly Serves[];
  capacity: number;
  /** Leases whose receipts have not come. */
  held = 0;
  /** Items asked for and not given yet (remote workers). */
  wanted = 0;
  /** Why it asks for nothing; null: it does not say. */
  why: string | null = null;
  /** Its work goes into queues, where it needs no beats and does not lapse. */
  readonly queued: boolean;
  /** It gets what nobody else serves. */
  readonly fallback: boolean;
  /** Most leases of one handler of a visit. */
  readonly perQueue: number;
  /** Handlers of visits that it has had work of, and most that it may have at a time. */
  readonly queues = new Set<string>();
  readonly queuesMax: number;
  /** A task that must run alone waits for this worker to be empty, or has it; null: none does. */
  alone: Alone | null = null;
  readonly #byUse = new Map<string, Map<string, Serves>>();

  constructor(id: string, options: JoinOptions) {
    this.id = id;
    this.local = options.local;
    this.project = options.project ?? null;
    this.serves = options.serves;
    this.capacity = options.capacity;
    this.canBeAsked = options.asks === true;
    this.queued = options.queued === true;
    this.fallback = options.fallback === true;
    this.perQueue = options.perQueue ?? Number.POSITIVE_INFINITY;
    this.queuesMax = options.queuesMax ?? Number.POSITIVE_INFINITY;
    for (const served of options.serves) {
      const versions = this.#byUse.get(served.use) ?? new Map<string, Serves>();
      const version = normal(served.version ?? "");
      const other = versions.get(version);
      // Two workflows may share a name: with code of both kinds it gets enumerations, and the input as one task.
      const isBoth = other !== undefined && other.enumerates !== served.enumerates;
      const { enumerates: _, ...both } = served;
      versions.set(version, isBoth ? both : served);
      this.#byUse.set(served.use, versions);
    }
  }

  /** Whether it may have tasks of a project. */
  isFor(project: string): boolean {
    return this.project === null || this.project === project;
  }

  /** What it serves under this name in this version. */
  served(use: string, version: string): Serves | undefined {
    return this.#byUse.get(use)?.get(version);
  }

  get uses(): Iterable<string> {
    return this.#byUse.keys();
  }

  // @plant lower version gets work too 2
  versionsOf(use: string): Iterable<string> {
    return this.#byUse.get(use)?.keys() ?? [];
  }

  /** Holds others back for a task, for a while. */
  holdFor(kind: Alone["kind"], at: Pick<Alone, "slot" | "queue" | "task">, now: number): void {
    this.alone = { kind, until: now + (kind === "waiting" ? ALONE_WAIT_MS : ALONE_RUN_MS), ...at };
  }

  /** Executions that are another node's by now. */
  forget(isOver: (execution: string) => boolean): void {
    for (const key of this.queues) if (isOver(key.slice(0, key.lastIndexOf("/")))) this.queues.delete(key);
  }

  /** How many more items it can take now. */
  get room(): number {
    if (this.alone !== null) return 0;
    const free = this.capacity - this.held;
    if (this.queued) return this.wanted > 0 ? free : 0;
    return this.local ? free : Math.min(free, this.wanted);
  }
}

/** So many names are remembered that workers have left. */
const LEFT_MAX = 1_000;

/** What a worker serves that takes what nobody else does: it cannot know whether the code enumerates. */
const ANYTHING: Serves = { use: "" };

export class WorkerRoster {
  readonly workers = new Map<string, RosterEntry>();
  /** The version that gets the work, by what is wanted and, if it has workers of its own, the project. */
  readonly #chosen = new Map<string, string | null>();
  /** A worker that enumerates, in the version that gets the work; by the same names. */
  readonly #enumerators = new Map<string, string | null>();
  /** Whether all who serve an enumeration's code only process; by the same names. */
  readonly #onlyProcessed = new Map<string, boolean>();
  /** Projects that have workers of their own. What is chosen, and this, is found anew when workers come or go. */
  #projects: ReadonlySet<string> = new Set();

  /** By what they served: when a worker left last. For those who ask why something waits. */
  readonly #leftAt = new Map<string, number>();

  /** The worker that passes work on to queues, if there is one. */
  queued: RosterEntry | null = null;

  join(entry: RosterEntry): void {
    this.workers.set(entry.id, entry);
    if (entry.queued) this.queued = entry;
    this.#changed(entry.project !== null);
  }

  leave(id: string, now: number): void {
    const entry = this.workers.get(id);
    if (entry?.project === null) this.#noteLeft(entry, now);
    if (this.workers.delete(id)) this.#changed(this.#projects.size > 0);
    if (this.queued?.id === id) this.queued = null;
  }

  /** When a worker for all projects that served this left last; undefined: none has, as far as is known. */
  leftAt(use: string): number | undefined {
    return this.#leftAt.get(use);
  }

  #noteLeft({ uses }: RosterEntry, now: number): void {
    for (const use of uses) {
      // The oldest first: what is left again is the newest.
      this.#leftAt.delete(use);
      this.#leftAt.set(use, now);
    }
    for (const [oldest] of this.#leftAt) {
      if (this.#leftAt.size <= LEFT_MAX) break;
      this.#leftAt.delete(oldest);
    }
  }

  #changed(mayBeBound: boolean): void {
    this.#chosen.clear();
    this.#enumerators.clear();
    this.#onlyProcessed.clear();
    if (mayBeBound)
      this.#projects = new Set([...this.workers.values()].flatMap(({ project }) => project ?? []));
  }

  /** What workers serve that do not queue and are for all projects. */
  usesServed(): ReadonlySet<string> {
    const all = [...this.workers.values()].filter(({ queued, project }) => !queued && project === null);
    return new Set(all.flatMap(({ uses }) => [...uses]));
  }

  get hasRemote(): boolean {
    for (const worker of this.workers.values()) if (!worker.local) return true;
    return false;
  }

  /** A worker that serves this, asks for work and has none. */
  emptyFor(wanted: Wanted, project: string): RosterEntry | undefined {
    for (const worker of this.workers.values())
      if (
        worker.held === 0 &&
        worker.room > 0 &&
        !worker.queued &&
        this.servedBy(worker, wanted, project) !== undefined
      )
        return worker;
    return undefined;
  }

  /** Whether a task waits for a worker to be empty, or has one to itself. */
  get hasHold(): boolean {
    for (const { alone } of this.workers.values()) if (alone !== null) return true;
    return false;
  }

  /** When the next hold on a worker ends; Infinity: there is none. */
  nextHoldEnd(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { alone } of this.workers.values())
      if (alone !== null && alone.until < next) next = alone.until;
    return next;
  }

  /** What the worker serves of this, if its version is the one that gets the work. */
  servedBy(worker: RosterEntry, wanted: Wanted, project: string): Serves | undefined {
    if (!worker.isFor(project)) return undefined;
    const version = this.choose(wanted, project);
    if (version !== null) {
      // @plant lower version gets work too
      const served = worker.served(wanted.use, version);
      if (!wanted.enumerates || served === undefined) return served;
      return this.#mayEnumerate(served, wanted, project) ? served : undefined;
    }
    return worker.fallback && this.#fallsBack(wanted) ? ANYTHING : undefined;
  }

  /** Code that says whether it enumerates is believed. Code that does not say gets an enumeration only if no other says so. */
  #mayEnumerate({ enumerates }: Serves, wanted: Wanted, project: string): boolean {
    // @plant enumeration given to code that only processes
    // @plant enumeration given to code that does not say
    return enumerates ?? this.enumeratorOf(wanted, project) === null;
  }

  /**
   * Whether what nobody serves goes to the one who takes the rest. Scripts are for workers that know them, and nobody can
   * tell which version takes a task out of a queue.
   */
  #fallsBack({ use, range }: Wanted): boolean {
    if (use === SCRIPT_USE || range !== null) return false;
    return this.queued !== null && this.queued.fallback && this.queued.wanted > 0;
  }

  /** Whether any worker serves it in a version that fits. */
  isServed(wanted: Wanted, project: string): boolean {
    if (this.choose(wanted, project) === null) return this.#fallsBack(wanted);
    return !wanted.enumerates || !this.isOnlyProcessed(wanted, project);
  }

  /** Whether workers serve the code of an enumeration and all of them say that it does not enumerate. */
  isOnlyProcessed(wanted: Wanted, project: string): boolean {
    const key = this.#keyOf(wanted, project);
    let isOnly = this.#onlyProcessed.get(key);
    if (isOnly === undefined) {
      isOnly =
        this.choose(wanted, project) !== null &&
        ![...this.workers.values()].some((worker) => this.servedBy(worker, wanted, project) !== undefined);
      this.#onlyProcessed.set(key, isOnly);
    }
    return isOnly;
  }

  /** A worker that enumerates this code, in the version that gets the work; null: none does. */
  enumeratorOf(wanted: Wanted, project: string): string | null {
    const key = this.#keyOf(wanted, project);
    const known = this.#enumerators.get(key);
    if (known !== undefined) return known;
    const version = this.choose(wanted, project);
    const found = [...this.workers.values()].find((worker) => {
      // Where no version fits, the worker that takes what nobody serves would get it.
      const versions =
        version !== null ? [version] : worker.fallback ? [...worker.versionsOf(wanted.use)] : [];
      return worker.isFor(project) && versions.some((one) => worker.served(wanted.use, one)?.enumerates);
    });
    this.#enumerators.set(key, found?.id ?? null);
    return found?.id ?? null;
  }

  /** What is chosen is the same for all projects without workers of their own. */
  #keyOf({ key }: Wanted, project: string): string {
    return this.#projects.has(project) ? `${project}/${key}` : key;
  }

  /** The highest version served that fits, "" for code without a version; null: none does. */
  choose(wanted: Wanted, project: string): string | null {
    const key = this.#keyOf(wanted, project);
    const known = this.#chosen.get(key);
    if (known !== undefined) return known;
    // @plant version range ignored
    const chosen = highest(this.versions(wanted.use, project), wanted.range);
    this.#chosen.set(key, chosen);
    return chosen;
  }

  /** All versions of the code that are served for a project. */
  versions(use: string, project: string): readonly string[] {
    const all = new Set<string>();
    for (const worker of this.workers.values())
      if (worker.isFor(project)) for (const version of worker.versionsOf(use)) all.add(version);
    return [...all];
  }
}

function highest(versions: readonly string[], range: string | null): string | null {
  if (versions.length === 0) return null;
  const proper = versions.filter((version) => valid(version) !== null);
  if (range !== null) return maxSatisfying(proper, range, { includePrerelease: false });
  // Without a range any will do: the highest release, else the highest prerelease, else whatever there is.
  const releases = proper.filter((version) => prerelease(version) === null);
  const [best] = (releases.length > 0 ? releases : proper).sort(rcompare);
  return best ?? [...versions].sort().at(-1) ?? null;
}

/** Two builds of one version are the same version. */
function normal(version: string): string {
  const known = normals.get(version);
  if (known !== undefined) return known;
  if (normals.size >= NORMALS_MAX) normals.clear();
  const found = valid(version) ?? version;
  normals.set(version, found);
  return found;
}

/** Workers come again and again with the same versions. */
const normals = new Map<string, string>();
const NORMALS_MAX = 1_000;
