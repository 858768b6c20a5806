/** Those who wait for what comes out of a node: askers, workers with reports, and whoever follows an execution. */
import type { Verdict } from "../../kernel/message.ts";
import type { Rejection } from "../../std/rejection.ts";
import type { Progress, Reply } from "../driver-options.ts";
import type { Inspection, Output } from "../io.ts";

type ReplyOutput = Extract<Output, { kind: "reply" | "inspected" | "verdicts" | "progressed" | "logged" }>;

export class PendingReplies {
  readonly replies = new Pending<number, Reply>();
  readonly inspections = new Pending<number, Inspection | Rejection>();
  readonly verdicts = new Pending<string, readonly (readonly Verdict[])[]>();
  readonly watchers = new Subscribers<Progress>();
  readonly logWatchers = new Subscribers<() => void>();

  deliver(word: ReplyOutput): void {
    switch (word.kind) {
      case "reply": {
        const { answer, existed = false, view } = word;
        return this.replies.answer(word.request, {
          answer,
          existed,
          ...(view === undefined ? {} : { view }),
        });
      }
      case "inspected":
        return this.inspections.answer(word.request, word.inspection);
      case "verdicts":
        return this.verdicts.answer(`${word.worker}/${word.report}`, word.verdicts);
      case "progressed":
        for (const progress of this.watchers.of(word.execution)) progress(word.seq, word.end);
        return;
      case "logged":
        for (const logged of this.logWatchers.of(word.execution)) logged();
    }
  }

  /** Nothing more comes out. */
  dismiss(answer: Rejection): void {
    this.replies.answerAll({ answer, existed: false });
    this.inspections.answerAll(answer);
    this.verdicts.answerAll([]);
    for (const progress of this.watchers.all()) progress(-1, "stopped");
  }
}

/** Questions that wait for an answer, by number or name. */
export class Pending<K, T> {
  readonly #waiting = new Map<K, (answer: T) => void>();

  /** Resolves with the answer to this question. */
  ask(key: K): Promise<T> {
    return new Promise((resolve) => this.#waiting.set(key, resolve));
  }

  /** The answer has come; nobody may wait for it any more. */
  answer(key: K, answer: T): void {
    const resolve = this.#waiting.get(key);
    this.#waiting.delete(key);
    resolve?.(answer);
  }

  /** Nothing else will come: the same answer for all. */
  answerAll(answer: T): void {
    for (const key of [...this.#waiting.keys()]) this.answer(key, answer);
  }
}

/** Those who follow executions, by id. */
export class Subscribers<T> {
  readonly #byExecution = new Map<string, Set<T>>();

  /** Adds one; the returned function takes it away. */
  add(execution: string, watcher: T): () => void {
    const watchers = this.#byExecution.get(execution) ?? new Set();
    watchers.add(watcher);
    this.#byExecution.set(execution, watchers);
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#byExecution.get(execution) === watchers)
        this.#byExecution.delete(execution);
    };
  }

  /** Those of an execution, as they are now. */
  of(execution: string): readonly T[] {
    const watchers = this.#byExecution.get(execution);
    return watchers === undefined ? [] : [...watchers];
  }

  all(): readonly T[] {
    return [...this.#byExecution.values()].flatMap((watchers) => [...watchers]);
  }
}
