/**
 * Checks values against schemas from outside without blocking the event loop. A schema can make its own check slow: by a
 * pattern that backtracks, by references that multiply, by unique items. So:
 * - A small value and a small schema without such keywords are checked in this thread.
 * - Everything else is checked in another thread, one value at a time, with a deadline. A thread that misses it is ended, and
 *   the next check gets a new one. The number of waiting checks is bounded.
 */
import { Worker } from "node:worker_threads";
import type { Clock } from "../../std/clock.ts";
import { compiledFile } from "../../std/compiled-file.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { SchemaCheck } from "./json-schema.ts";
import type { SchemaCall, SchemaReply } from "./schema-thread.ts";

/** Checks values against one schema. */
export interface ValueCheck {
  /** Returns why a value does not match the schema; null if it does. `what` names the value. */
  check(value: Json, what: string): Promise<Rejection | null>;
}

interface Job {
  readonly call: SchemaCall;
  readonly resolve: (answer: Rejection | null) => void;
}

const DEADLINE_MS = 2_000;
const WAITING_MAX = 1_000;
/** Keywords whose check can take much longer than the sizes of schema and value suggest. */
const COSTLY =
  /"(?:pattern|patternProperties|format|uniqueItems|\$ref|\$dynamicRef|\$recursiveRef|contains|unevaluated\w+)":/;
const SMALL_SCHEMA_CHARS = 16_384;
/** The largest product of the lengths of schema and value for a check in this thread. The product bounds the time of a check. */
const SMALL_WORK = 16_777_216;
const MEMORY = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16, stackSizeMb: 2 };

export class SchemaChecker {
  readonly #clock: Clock;
  readonly #deadlineMs: number;
  readonly #waiting: Job[] = [];
  #worker: Worker | null = null;
  #isReady = false;
  #job: Job | null = null;
  #cancel: () => void = () => {};
  #isClosed = false;

  constructor(parts: { clock: Clock; deadlineMs?: number }) {
    this.#clock = parts.clock;
    this.#deadlineMs = parts.deadlineMs ?? DEADLINE_MS;
  }

  /** Prepares a schema of a definition for checks, or returns a rejection; `at` is the path of the schema. */
  async of(schema: Json, at: string): Promise<ValueCheck | Rejection> {
    const text = JSON.stringify(schema);
    const inThread = (value: string, what: string): Promise<Rejection | null> =>
      this.#ask({ kind: "check", schema: text, value, what });
    if (text.length > SMALL_SCHEMA_CHARS || COSTLY.test(text)) {
      const wrong = await this.#ask({ kind: "compile", schema: text, what: at });
      return wrong ?? { check: (value, what) => inThread(JSON.stringify(value), what) };
    }
    const here = SchemaCheck.of(schema, at);
    if (isRejection(here)) return here;
    return {
      check: async (value, what) => {
        const shown = JSON.stringify(value);
        return text.length * shown.length <= SMALL_WORK ? here.check(value, what) : inThread(shown, what);
      },
    };
  }

  /** Ends the thread. Waiting checks get a rejection. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve(closing());
    await this.#endThread(closing());
  }

  #ask(call: SchemaCall): Promise<Rejection | null> {
    if (this.#isClosed) return Promise.resolve(closing());
    if (this.#waiting.length >= WAITING_MAX)
      return Promise.resolve(reject("not_ready", "too many values wait to be checked by their schemas"));
    return new Promise((resolve) => {
      this.#waiting.push({ call, resolve });
      this.#next();
    });
  }

  #next(): void {
    if (this.#job !== null || this.#waiting.length === 0 || this.#isClosed) return;
    if (this.#worker === null) this.#startThread();
    if (!this.#isReady) return;
    const job = this.#waiting.shift() as Job;
    this.#job = job;
    this.#worker?.postMessage(job.call);
    this.#cancel = this.#clock.after(this.#deadlineMs, () => void this.#endThread(tooLong(job.call)));
  }

  #startThread(): void {
    const worker = new Worker(compiledFile("./schema-thread.js", import.meta.url), {
      execArgv: [],
      resourceLimits: MEMORY,
    });
    this.#worker = worker;
    this.#isReady = false;
    worker.unref();
    const isCurrent = (): boolean => this.#worker === worker;
    worker.on("message", (reply: SchemaReply) => {
      if (!isCurrent()) return;
      if (reply.kind === "ready") this.#isReady = true;
      else this.#answer(reply.rejection);
      this.#next();
    });
    // The thread fails if it runs out of memory or cannot start.
    worker.on("error", (error) => {
      if (!isCurrent()) return;
      if (this.#job === null) this.#waiting.shift()?.resolve(broken(error));
      void this.#endThread(broken(error));
    });
  }

  #answer(answer: Rejection | null): void {
    this.#cancel();
    const job = this.#job;
    this.#job = null;
    job?.resolve(answer);
  }

  /** Ends the thread. Its present check gets the rejection. */
  async #endThread(rejection: Rejection): Promise<void> {
    const worker = this.#worker;
    this.#worker = null;
    this.#isReady = false;
    this.#answer(rejection);
    await worker?.terminate();
    this.#next();
  }
}

function tooLong(call: SchemaCall): Rejection {
  return call.kind === "compile"
    ? reject("invalid_definition", `${call.what}: this schema takes too long to be checked`, {
        path: call.what,
        hint: "leave out patterns that backtrack and references that double",
      })
    : reject("invalid_input", `${call.what}: its check by the workflow's schema took too long`, {
        path: call.what,
        hint: "send a smaller value, or simplify the schema: its patterns, references and uniqueItems",
      });
}

function broken(error: Error): Rejection {
  return reject("invalid_input", `the check by the schema failed: ${error.message.slice(0, 200)}`);
}

function closing(): Rejection {
  return reject("not_ready", "the server is closing");
}
