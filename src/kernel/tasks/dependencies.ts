/**
 * The dependencies between the tasks of one handler: which tasks wait for which others (`after`). A task waits while one of its
 * dependencies is not done. Edges lead from a dependency to the tasks that wait for it (its waiters), are kept in typed arrays, and
 * are dropped when the dependency is done. 100,000 tasks with three dependencies each take a few megabytes.
 */
import { Bitset } from "../../std/bitset.ts";
import type { Afters } from "../definition/task-name.ts";
import type { IdentitySet } from "./identity-set.ts";
import type { TaskTable } from "./task-table.ts";

/** A page of tasks, with the identities of the tasks for which they wait. */
interface Page {
  readonly from: number;
  readonly identities: readonly string[];
  readonly afters: Afters;
}

export class Dependencies {
  /** Open tasks that wait for other tasks. */
  blocked = new Bitset();
  /** For each task, the number of its dependencies that are not done. */
  #unmet = new Uint32Array(64);
  /** For each dependency, the number of its first edge, counted from 1; 0 if no task waits for it. */
  #first = new Uint32Array(64);
  /**
   * For each edge, the task that waits. The next array has the next edge of the same dependency. Unused edges form a list of their
   * own.
   */
  #waiter = new Uint32Array(64);
  #next = new Uint32Array(64);
  #edges = 0;
  #free = 0;
  /** The identities of dependencies that have waiters. */
  readonly #names = new Map<number, string>();
  /** Identities for which tasks wait but that no task has yet, with the waiting tasks. */
  readonly #missing = new Map<string, number[]>();
  /** Dependencies that may have failed while tasks wait for them. The next step fails the waiting tasks. */
  readonly #failed = new Set<number>();

  /** Adds a page of tasks, whose identities are new. */
  add({ from, identities, afters }: Page, tasks: TaskTable, known: IdentitySet): void {
    this.#reserve(from + identities.length);
    for (let i = 0; i < identities.length; i++) {
      const identity = identities[i] as string;
      known.add(identity, from + i);
      this.#found(from + i, identity);
      for (const name of afters[i] ?? []) this.#depend(from + i, name, tasks, known);
      if (this.#unmet[from + i] === 0) continue;
      tasks.block(from + i);
      this.blocked.add(from + i);
    }
  }

  /** Called when a task is done: releases the tasks that waited only for this one. */
  done(task: number, tasks: TaskTable, now: number): void {
    for (let edge = this.#first[task] ?? 0; edge > 0; ) {
      const waiter = this.#waiter[edge] as number;
      const next = this.#next[edge] as number;
      this.#next[edge] = this.#free;
      this.#free = edge;
      edge = next;
      const unmet = (this.#unmet[waiter] as number) - 1;
      this.#unmet[waiter] = unmet;
      // @plant waiter released before its last dependency
      if (unmet === 0 && this.blocked.delete(waiter)) tasks.release(waiter, Math.max(1, now));
    }
    if (task < this.#first.length) this.#first[task] = 0;
    this.#names.delete(task);
    this.#failed.delete(task);
  }

  /** Called when a task has failed or was cancelled. */
  failed(task: number): void {
    this.blocked.delete(task);
    if (this.hasWaiters(task)) this.#failed.add(task);
  }

  /** Blocks open tasks that wait for others, after a round began or a snapshot was read. */
  restore(tasks: TaskTable, total: number): void {
    this.blocked = new Bitset();
    this.#failed.clear();
    this.#reserve(total);
    for (let task = 0; task < total; task++) {
      const isSettled = tasks.settled.has(task);
      if (isSettled && this.hasWaiters(task) && !tasks.isDone(task)) this.#failed.add(task);
      if (isSettled || this.#unmet[task] === 0) continue;
      tasks.block(task);
      this.blocked.add(task);
    }
  }

  /** Whether the task waits for other tasks, so that it has not begun. */
  isBlocked(task: number): boolean {
    return (this.#unmet[task] ?? 0) > 0;
  }

  hasWaiters(task: number): boolean {
    return (this.#first[task] ?? 0) > 0;
  }

  /** Returns the identity of a task for which other tasks wait. */
  nameOf(task: number): string {
    return this.#names.get(task) ?? `task ${task}`;
  }

  /** Returns the dependencies that are not done and never will be in this round, and for which tasks wait. */
  takeFailed(tasks: TaskTable): number[] {
    if (this.#failed.size === 0) return NONE;
    const failed = [...this.#failed].filter((task) => tasks.settled.has(task) && !tasks.isDone(task));
    this.#failed.clear();
    return failed.sort((a, b) => a - b);
  }

  /** The tasks that wait for this one. */
  waitersOf(task: number): number[] {
    const waiters: number[] = [];
    for (let edge = this.#first[task] ?? 0; edge > 0; edge = this.#next[edge] as number)
      waiters.push(this.#waiter[edge] as number);
    return waiters.sort((a, b) => a - b);
  }

  /** Identities that no task has, with the tasks that wait for them. */
  missing(): Iterable<readonly [string, readonly number[]]> {
    return this.#missing;
  }

  /**
   * Returns the cycles of blocked tasks, each as a list of its tasks in order, if every blocked task waits for another one. A task is
   * in at most one cycle. Blocked tasks outside the cycles wait for a task in a cycle.
   */
  cycles(total: number): number[][] {
    /** For each blocked task, the lowest blocked task for which it waits, plus 1. */
    const after = new Uint32Array(total);
    for (let task = 0; task < total; task++)
      if (this.blocked.has(task))
        for (const waiter of this.waitersOf(task))
          if (this.blocked.has(waiter) && after[waiter] === 0) after[waiter] = task + 1;
    const walk = new Uint32Array(total);
    const cycles: number[][] = [];
    for (let start = 0; start < total; start++) {
      let task = start;
      while (walk[task] === 0 && after[task] !== 0) {
        walk[task] = start + 1;
        task = (after[task] as number) - 1;
      }
      if (walk[task] !== start + 1) continue;
      const cycle: number[] = [];
      for (let one = task; cycle.length === 0 || one !== task; one = (after[one] as number) - 1)
        cycle.push(one);
      cycles.push(cycle);
    }
    return cycles;
  }

  /**
   * Returns an example of a waiting task: the task, the identity of the task for which it waits, and the number of that one, which
   * does not wait itself. The number is null if no task has the identity. Returns null if no task waits.
   */
  example(
    tasks: TaskTable,
  ): { readonly task: number; readonly after: string; readonly on: number | null } | null {
    for (const [name, [task]] of this.#missing)
      if (task !== undefined && this.blocked.has(task)) return { task, after: name, on: null };
    for (const [on, after] of this.#names)
      if (!tasks.settled.has(on) && !this.blocked.has(on))
        for (const task of this.waitersOf(on)) if (this.blocked.has(task)) return { task, after, on };
    return null;
  }

  toSnapshot(): DependenciesSnapshot {
    const pairs: number[] = [];
    for (let task = 0; task < this.#first.length; task++)
      for (const waiter of this.hasWaiters(task) ? this.waitersOf(task) : NONE) pairs.push(task, waiter);
    return {
      edges: Buffer.from(Uint32Array.from(pairs).buffer).toString("base64"),
      names: [...this.#names],
      missing: [...this.#missing],
    };
  }

  static fromSnapshot(data: DependenciesSnapshot, tasks: TaskTable, total: number): Dependencies {
    const read = new Dependencies();
    read.#reserve(total);
    const bytes = Buffer.from(data.edges, "base64");
    for (let i = 0; i + 8 <= bytes.length; i += 8)
      read.#addEdge(bytes.readUInt32LE(i), bytes.readUInt32LE(i + 4));
    for (const [task, name] of data.names) read.#names.set(task, name);
    for (const [name, waiters] of data.missing) {
      read.#missing.set(name, [...waiters]);
      for (const waiter of waiters) read.#unmet[waiter] = (read.#unmet[waiter] as number) + 1;
    }
    read.restore(tasks, total);
    return read;
  }

  /** Makes a task wait for the task with this identity. */
  #depend(task: number, name: string, tasks: TaskTable, known: IdentitySet): void {
    const dependency = known.taskOf(name);
    if (dependency < 0) {
      const waiters = this.#missing.get(name);
      if (waiters === undefined) this.#missing.set(name, [task]);
      else waiters.push(task);
      this.#unmet[task] = (this.#unmet[task] as number) + 1;
    } else if (!tasks.isDone(dependency)) {
      this.#addEdge(dependency, task);
      this.#names.set(dependency, name);
      if (tasks.settled.has(dependency)) this.#failed.add(dependency);
    }
  }

  /** Called when a task with this identity was added: tasks that waited for the identity now wait for that task. */
  #found(task: number, identity: string): void {
    const waiters = this.#missing.get(identity);
    if (waiters === undefined) return;
    this.#missing.delete(identity);
    this.#names.set(task, identity);
    for (const waiter of waiters) {
      this.#unmet[waiter] = (this.#unmet[waiter] as number) - 1;
      this.#addEdge(task, waiter);
    }
  }

  #addEdge(dependency: number, waiter: number): void {
    let edge = this.#free;
    if (edge > 0) this.#free = this.#next[edge] as number;
    else {
      edge = ++this.#edges;
      if (edge >= this.#waiter.length) {
        this.#waiter = grown(this.#waiter, edge + 1);
        this.#next = grown(this.#next, edge + 1);
      }
    }
    this.#waiter[edge] = waiter;
    this.#next[edge] = this.#first[dependency] as number;
    this.#first[dependency] = edge;
    this.#unmet[waiter] = (this.#unmet[waiter] as number) + 1;
  }

  #reserve(total: number): void {
    if (total <= this.#unmet.length) return;
    this.#unmet = grown(this.#unmet, total);
    this.#first = grown(this.#first, total);
  }
}

export interface DependenciesSnapshot {
  /** Pairs of a dependency and a task that waits for it, four bytes each, as base64. */
  readonly edges: string;
  readonly names: readonly (readonly [number, string])[];
  readonly missing: readonly (readonly [string, readonly number[]])[];
}

const NONE: number[] = [];

function grown(from: Uint32Array, least: number): Uint32Array<ArrayBuffer> {
  const to = new Uint32Array(Math.max(least, from.length * 2));
  to.set(from);
  return to;
}
