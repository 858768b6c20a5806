/** The workers of this node: the code that each serves (the highest matching version gets work), and its leases. */
import { maxSatisfying, prerelease, rcompare, valid } from "semver";
import type { Wanted } from "../../kernel/definition/plan.ts";
import type { Serves } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import type { JoinOptions } from "../io.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** How long other tasks are held back for a task that must run alone: before it starts, and while it runs. */
const ALONE_WAIT_MS = 1_000;
const ALONE_RUN_MS = 10_000;

export interface Alone {
  readonly kind: "waiting" | "taken";
  readonly until: number;
  readonly slot: Slot;
  readonly queue: HandlerQueue;
  /** The task that runs alone. It is removed from its queue while it waits. */
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
  /** The number of requested items that were not granted yet (remote workers). */
  wanted = 0;
  /** Why the worker requests nothing; null if it gives no reason. */
  why: string | null = null;
  /** Whether the worker passes work on to queues, so that its leases need no heartbeats and do not lapse. */
  readonly queued: boolean;
  /** Whether the worker gets work that no other worker serves. */
  readonly fallback: boolean;
  readonly perQueue: number;
  /** The handlers of visits from which the worker has got work, and the most at a time. */
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
      // Two workflows may share a name. A worker with code of both kinds gets enumerations, and the input as a single task.
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

  /** Drops executions that another node owns by now. */
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

/** The most remembered names of code that workers served before they left. */
const LEFT_MAX = 1_000;

/** The entry for the code of the fallback worker: it is unknown whether that code enumerates. */
const ANYTHING: Serves = { use: "" };

export class WorkerRoster {
  readonly workers = new Map<string, RosterEntry>();
  /**
   * The version that gets the work. The key consists of the wanted code and, if the project has its own workers, the project.
   */
  readonly #chosen = new Map<string, string | null>();
  /** A worker that enumerates, in the version that gets the work; by the same keys. */
  readonly #enumerators = new Map<string, string | null>();
  /** Whether all workers of an enumeration's code only process; by the same keys. */
  readonly #onlyProcessed = new Map<string, boolean>();
  /** Projects that have their own workers. This set and the chosen versions are computed again when workers join or leave. */
  #projects: ReadonlySet<string> = new Set();

  /** When a worker of this code left last, for `why`. */
  readonly #leftAt = new Map<string, number>();

  /** The worker that passes work on to queues, if there is one. */
  queued: RosterEntry | null = null;

  /** Code whose queue an operator paused: as if no worker served it. */
  #paused: ReadonlyMap<string, string> = new Map();

  /** Replaces the paused queues: by the name of their code, who paused each and why. */
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
      // The entry is inserted again, so that the map stays ordered by time.
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

  /** The code that workers for all projects serve; workers that queue are left out. */
  usesServed(): ReadonlySet<string> {
    const all = [...this.workers.values()].filter(({ queued, project }) => !queued && project === null);
    return new Set(all.flatMap(({ uses }) => [...uses]));
  }

  get hasRemote(): boolean {
    for (const worker of this.workers.values()) if (!worker.local) return true;
    return false;
  }

  /** A worker that serves this code, requests work and has none. */
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

  /** Whether a task waits for an empty worker, or runs alone on one. */
  get hasHold(): boolean {
    for (const { alone } of this.workers.values()) if (alone !== null) return true;
    return false;
  }

  /** When the next hold on a worker ends; Infinity if there is none. */
  nextHoldEnd(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { alone } of this.workers.values())
      if (alone !== null && alone.until < next) next = alone.until;
    return next;
  }

  /** The worker's code for this work, if its version gets the work. */
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
   * Whether code may get enumerations. Code that declares this is believed; other code may enumerate only if no worker declares
   * it.
   */
  #mayEnumerate({ enumerates }: Serves, wanted: Wanted, project: string): boolean {
    // @plant enumeration given to code that only processes
    // @plant enumeration given to code that does not say
    return enumerates ?? this.enumeratorOf(wanted, project) === null;
  }

  /** Whether unserved work goes to the fallback worker. Work with a version range does not. */
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

  /** A worker that enumerates this code, in the version that gets the work; null if there is none. */
  enumeratorOf(wanted: Wanted, project: string): string | null {
    const key = this.#keyOf(wanted, project);
    const known = this.#enumerators.get(key);
    if (known !== undefined) return known;
    const version = this.choose(wanted, project);
    const found = [...this.workers.values()].find((worker) => {
      // Without a matching version, the fallback worker would get the work.
      const versions =
        version !== null ? [version] : worker.fallback ? [...worker.versionsOf(wanted.use)] : [];
      return worker.isFor(project) && versions.some((one) => worker.served(wanted.use, one)?.enumerates);
    });
    this.#enumerators.set(key, found?.id ?? null);
    return found?.id ?? null;
  }

  /** The key of a choice of versions: all projects without their own workers share one. */
  #keyOf({ key }: Wanted, project: string): string {
    return this.#projects.has(project) ? `${project}/${key}` : key;
  }

  /** The highest matching version, "" for code without a version; null if there is none. */
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
  // Without a range: the highest release, else the highest prerelease, else any version.
  const releases = proper.filter((version) => prerelease(version) === null);
  const [best] = (releases.length > 0 ? releases : proper).sort(rcompare);
  return best ?? [...versions].sort().at(-1) ?? null;
}

/** The normal form of a version, without the build: two builds of one version count as the same. */
function normal(version: string): string {
  const known = normals.get(version);
  if (known !== undefined) return known;
  if (normals.size >= NORMALS_MAX) normals.clear();
  const found = valid(version) ?? version;
  normals.set(version, found);
  return found;
}

/** A cache of normal forms: workers register with the same versions again and again. */
const normals = new Map<string, string>();
const NORMALS_MAX = 1_000;
