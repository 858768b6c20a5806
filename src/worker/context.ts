/** The objects user code gets. Parts that cost something (abort signal, readers) are made on first use. */

import { brandFatal } from "../protocol/error-brands.ts";
import type { Grant, GrantItem } from "../protocol/work.ts";
import type { Duration } from "../std/duration.ts";
import type { EnumerateContext, HandlerCode, Log, PhasesReader, ProcessContext } from "./handler-code.ts";
import { type ResultsSource, readPhases } from "./results-reader.ts";

/** What all contexts of one grant share. */
export interface Shared {
  readonly grant: Grant;
  /** The grant under which receipts are gathered: consecutive grants of one handler report together. */
  readonly lead: Grant;
  readonly code: HandlerCode | undefined;
  /** The input as handlers see it. */
  readonly input: unknown;
  readonly results: ResultsSource;
  readonly log: (grant: Grant, item: GrantItem, level: string, parts: readonly unknown[]) => void;
}

class Base {
  protected readonly shared: Shared;
  protected readonly item: GrantItem;
  #abort: AbortController | undefined;
  #phases: PhasesReader | undefined;

  constructor(shared: Shared, item: GrantItem) {
    this.shared = shared;
    this.item = item;
  }

  get execution(): string {
    return this.shared.grant.execution;
  }

  get input(): unknown {
    return this.shared.input;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    return this.#abort.signal;
  }

  get phases(): PhasesReader {
    this.#phases ??= readPhases(this.shared.grant.execution, this.shared.grant.phases, this.shared.results);
    return this.#phases;
  }

  get log(): Log {
    const write =
      (level: string) =>
      (...parts: unknown[]) =>
        this.shared.log(this.shared.grant, this.item, level, parts);
    return Object.assign(write("info"), { info: write("info"), warn: write("warn"), error: write("error") });
  }

  /** Tells the code to stop. */
  abort(reason: Error): void {
    this.#abort ??= new AbortController();
    this.#abort.abort(reason);
  }
}

export class AnswerContext extends Base {}

export class TaskContext extends Base implements ProcessContext {
  readonly task: unknown;

  constructor(shared: Shared, item: GrantItem, task: unknown) {
    super(shared, item);
    this.task = task;
  }

  get number(): number {
    return this.item.number;
  }

  get attempt(): number {
    return this.item.attempt;
  }

  get idempotencyKey(): string {
    const { execution, phase, visit, handler } = this.shared.grant;
    return `${execution}/${phase}/${visit}/${handler}/${this.item.number}`;
  }

  get progress(): (done: number, total?: number) => void {
    return (done, total) => this.shared.log(this.shared.grant, this.item, "progress", [done, total]);
  }

  get step(): ProcessContext["step"] {
    return (name) => Promise.reject(notYet(`step("${name}")`));
  }

  get sleep(): (name: string, duration: Duration) => Promise<void> {
    return (name) => Promise.reject(notYet(`sleep("${name}")`));
  }

  get waitFor(): ProcessContext["waitFor"] {
    return (name) => Promise.reject(notYet(`waitFor("${name}")`));
  }
}

export class ListingContext extends Base implements EnumerateContext {
  /** The code asked what is journaled already: then it goes on from there. */
  resumed = false;

  get resume(): EnumerateContext["resume"] {
    const { resume } = this.shared.grant;
    if (resume === null) return undefined;
    // Only what looks inside goes on from there: taking `resume` out of the context is not yet reading it.
    const read = <T>(value: T): T => {
      this.resumed = true;
      return value;
    };
    return {
      get count() {
        return read(resume.count);
      },
      get last() {
        return read(JSON.parse(resume.last) as unknown);
      },
    };
  }
}

function notYet(what: string): Error {
  return brandFatal(
    new Error(`${what} inside process is not available in this version; use a phase of its own`),
  );
}
