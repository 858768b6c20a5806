/** The workers of this node, with the code that each serves and its leases. Work goes to the highest version of the code that matches. */
import { maxSatisfying, prerelease, rcompare, valid } from "semver";
import type { Wanted } from "../../kernel/definition/plan.ts";
import type { Serves } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import type { JoinOptions } from "../io.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/**
 * For how long other tasks are held back from a worker for a task that must run alone: first until the task starts, then while it
 * runs.
 */
const ALONE_WAIT_MS = 1_000;
const ALONE_RUN_MS = 10_000;

export interface Alone {
  readonly kind: "waiting" | "taken";
  readonly until: number;
  readonly slot: Slot;
  readonly queue: HandlerQueue;
  /** The number of the task that runs alone. The task is not in its queue while it waits for the worker. */
  readonly task: number;
}

export class RosterEntry {
  readonly id: string;
  readonly local: boolean;
  /** The project whose tasks the worker gets; null if it gets tasks of all projects. */
  readonly project: string | null;
  /** Whether the worker has a status API that can be asked about an attempt. */
  readonly canBeAsked: boolean;
  readonly serves: readonly Serves[];
  capacity: number;
  held = 0;
  /** The number of items that a remote worker has requested and not got yet. */
  wanted = 0;
  /** Why the worker requests nothing; null if it gives no reason. */
  why: string | null = null;
  /** Whether the worker forwards work to queues of a broker. Its leases need no heartbeats and do not lapse. */
  readonly queued: boolean;
  /** Whether the worker also gets work that no other worker serves. */
  readonly fallback: boolean;
  readonly perQueue: number;
  /** The handlers of visits from which the worker has got work, and then the most of them at a time. */
  readonly queues = new Set<string>();
  readonly queuesMax: number;
  /** The task that waits to run alone on this worker, or runs alone; null if there is none. */
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
      // Two workflows may use the same name for different code. A worker whose code under a name both enumerates and processes gets
      // enumerations, and also the input as a single task.
      const isBoth = other !== undefined && other.enumerates !== served.enumerates;
      const { enumerates: _, ...both } = served;
      versions.set(version, isBoth ? both : served);
      this.#byUse.set(served.use, versions);
    }
  }

  /** Whether the worker may get tasks of a project. */
  isFor(project: string): boolean {
    return this.project === null || this.project === project;
  }

  /** The code that the worker serves under this name and version. */
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

  holdFor(kind: Alone["kind"], at: Pick<Alone, "slot" | "queue" | "task">, now: number): void {
    this.alone = { kind, until: now + (kind === "waiting" ? ALONE_WAIT_MS : ALONE_RUN_MS), ...at };
  }

  /** Drops entries of executions that another node owns now. */
  forget(isOver: (execution: string) => boolean): void {
    for (const key of this.queues) if (isOver(key.slice(0, key.lastIndexOf("/")))) this.queues.delete(key);
  }

  get room(): number {
    if (this.alone !== null) return 0;
    const free = this.capacity - this.held;
    if (this.queued) return this.wanted > 0 ? free : 0;
    return this.local ? free : Math.min(free, this.wanted);
  }
}

/** The number of names of code for which the roster remembers when their last worker left. */
const LEFT_MAX = 1_000;

/** Stands for the code of the fallback worker, of which it is unknown whether it enumerates. */
const ANYTHING: Serves = { use: "" };

export class WorkerRoster {
  readonly workers = new Map<string, RosterEntry>();
  /**
   * The version of each code that gets the work. The key is the wanted code, with the project in front if the project has its own
   * workers.
   */
  readonly #chosen = new Map<string, string | null>();
  /** The id of a worker that enumerates, in the version that gets the work. The keys are the wanted code, as for the chosen versions. */
  readonly #enumerators = new Map<string, string | null>();
  /**
   * Whether all workers that serve an enumeration's code can only process tasks. The keys are the wanted code, as for the chosen
   * versions.
   */
  readonly #onlyProcessed = new Map<string, boolean>();
  /** Projects that have their own workers. This set and the chosen versions are computed again when workers join or leave. */
  #projects: ReadonlySet<string> = new Set();

  /** The time at which a worker of each code left last, which `why` shows. */
  readonly #leftAt = new Map<string, number>();

  /** The worker that forwards work to queues of a broker; null if there is none. */
  queued: RosterEntry | null = null;

  /** The code whose queue an operator has paused. It is treated as if no worker served it. */
  #paused: ReadonlyMap<string, string> = new Map();

  /** Replaces the set of paused queues. The map has, for the name of each code, who paused its queue and why. */
  pause(paused: ReadonlyMap<string, string>): void {
    this.#paused = paused;
    this.#changed(false);
  }

  /** Who paused the queue of this code, and why; undefined if it is not paused. */
  pausedBy(use: string): string | undefined {
    return this.#paused.get(use);
  }

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

  /** When a worker that serves this code for all projects left last; undefined if that is not known. */
  leftAt(use: string): number | undefined {
    return this.#leftAt.get(use);
  }

  #noteLeft({ uses }: RosterEntry, now: number): void {
    for (const use of uses) {
      // Inserts the entry again at the end, so that the map stays ordered by time.
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

  /** Returns the code that workers for all projects serve. Workers that forward to queues are left out. */
  usesServed(): ReadonlySet<string> {
    const all = [...this.workers.values()].filter(({ queued, project }) => !queued && project === null);
    return new Set(all.flatMap(({ uses }) => [...uses]));
  }

  get hasRemote(): boolean {
    for (const worker of this.workers.values()) if (!worker.local) return true;
    return false;
  }

  /** Returns a worker that serves this code, requests work and has no task. */
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

  /** Whether a task waits for a worker without other tasks, or runs alone on one. */
  get hasHold(): boolean {
    for (const { alone } of this.workers.values()) if (alone !== null) return true;
    return false;
  }

  /** Returns when the next hold of a worker for a single task ends; Infinity if there is none. */
  nextHoldEnd(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { alone } of this.workers.values())
      if (alone !== null && alone.until < next) next = alone.until;
    return next;
  }

  /** Returns the entry for the code with which the worker serves this work, if its version is the one that gets the work. */
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

  /**
   * Whether code may get enumerations. Code that declares to enumerate may. Code that declares nothing may only if no worker declares
   * it.
   */
  #mayEnumerate({ enumerates }: Serves, wanted: Wanted, project: string): boolean {
    // @plant enumeration given to code that only processes
    // @plant enumeration given to code that does not say
    return enumerates ?? this.enumeratorOf(wanted, project) === null;
  }

  /** Whether work that no other worker serves goes to the fallback worker. Work that asks for a version range does not. */
  #fallsBack({ use, range }: Wanted): boolean {
    if (range !== null || this.#paused.has(use)) return false;
    return this.queued !== null && this.queued.fallback && this.queued.wanted > 0;
  }

  isServed(wanted: Wanted, project: string): boolean {
    if (this.choose(wanted, project) === null) return this.#fallsBack(wanted);
    return !wanted.enumerates || !this.isOnlyProcessed(wanted, project);
  }

  /** Whether workers serve the code of an enumeration, and all of them declare that it does not enumerate. */
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

  /** Returns the id of a worker that enumerates with this code, in the version that gets the work; null if there is none. */
  enumeratorOf(wanted: Wanted, project: string): string | null {
    const key = this.#keyOf(wanted, project);
    const known = this.#enumerators.get(key);
    if (known !== undefined) return known;
    const version = this.choose(wanted, project);
    const found = [...this.workers.values()].find((worker) => {
      // If no version matches, the work goes to the fallback worker, so all its versions are tried.
      const versions =
        version !== null ? [version] : worker.fallback ? [...worker.versionsOf(wanted.use)] : [];
      return worker.isFor(project) && versions.some((one) => worker.served(wanted.use, one)?.enumerates);
    });
    this.#enumerators.set(key, found?.id ?? null);
    return found?.id ?? null;
  }

  /** Returns the key under which a chosen version is kept. All projects without workers of their own share one key. */
  #keyOf({ key }: Wanted, project: string): string {
    return this.#projects.has(project) ? `${project}/${key}` : key;
  }

  /** Returns the highest version that matches; "" for code without a version; null if no worker serves the code. */
  choose(wanted: Wanted, project: string): string | null {
    const key = this.#keyOf(wanted, project);
    const known = this.#chosen.get(key);
    if (known !== undefined) return known;
    const chosen = this.#paused.has(wanted.use)
      ? null
      : /* @plant version range ignored */ highest(this.versions(wanted.use, project), wanted.range);
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
  // Without a range, the highest release is chosen, else the highest prerelease, else any version.
  const releases = proper.filter((version) => prerelease(version) === null);
  const [best] = (releases.length > 0 ? releases : proper).sort(rcompare);
  return best ?? [...versions].sort().at(-1) ?? null;
}

/** Returns the normal form of a version, without its build part: two builds of a version count as the same version. */
function normal(version: string): string {
  const known = normals.get(version);
  if (known !== undefined) return known;
  if (normals.size >= NORMALS_MAX) normals.clear();
  const found = valid(version) ?? version;
  normals.set(version, found);
  return found;
}

/** A cache of the normal forms of versions, since workers register with the same versions again and again. */
const normals = new Map<string, string>();
const NORMALS_MAX = 1_000;
