/** The requests, inspections and reports to an engine that wait for their answers, and the subscribers to executions and logs. */

import type { Verdict } from "../../kernel/message.ts";
import type { Rejection } from "../../std/rejection.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { Progress, Reply } from "../driver-options.ts";
import type { Inspection, Output } from "../io.ts";

type ReplyOutput = Extract<Output, { kind: "reply" | "inspected" | "verdicts" | "progressed" | "logged" }>;

export class PendingReplies {
  readonly replies = new Pending<number, Reply>();
  readonly inspections = new Pending<number, Inspection | Rejection>();
  readonly verdicts = new Pending<string, readonly (readonly Verdict[])[]>();
  readonly watchers = new Subscribers<Progress>();
  readonly logWatchers = new Subscribers<() => void>();

  /** Delivers an output of the node to the caller or the subscribers. */
  deliver(output: ReplyOutput): void {
    switch (output.kind) {
      case "reply": {
        const { answer, existed = false, view, commands } = output;
        return this.replies.answer(output.request, {
          answer,
          existed,
          ...(view === undefined ? {} : { view }),
          ...(commands === undefined ? {} : { commands }),
        });
      }
      case "inspected":
        return this.inspections.answer(output.request, output.inspection);
      case "verdicts":
        return this.verdicts.answer(`${output.worker}/${output.report}`, output.verdicts);
      case "progressed":
        for (const progress of this.watchers.of(output.execution)) progress(output.seq, output.end);
        return;
      case "logged":
        for (const logged of this.logWatchers.of(output.execution)) logged();
    }
  }

  /**
   * Ends all waiting calls, because the engine stops: requests and inspections get this answer, reports get no verdicts, and
   * subscribers to executions are told that the engine stopped.
   */
  dismiss(answer: Rejection): void {
    this.replies.answerAll({ answer, existed: false });
    this.inspections.answerAll(answer);
    this.verdicts.answerAll([]);
    for (const progress of this.watchers.all()) progress(-1, "stopped");
  }
}

export class Pending<K extends string | number, T> {
  readonly #waiting = new TransientMap<K, (answer: T) => void>();

  ask(key: K): Promise<T> {
    return new Promise((resolve) => this.#waiting.set(key, resolve));
  }

  answer(key: K, answer: T): void {
    const resolve = this.#waiting.get(key);
    this.#waiting.delete(key);
    resolve?.(answer);
  }

  answerAll(answer: T): void {
    for (const key of [...this.#waiting.keys()]) this.answer(key, answer);
  }
}

export class Subscribers<T> {
  readonly #byExecution = new TransientMap<string, Set<T>>();

  /** Adds a subscriber; the returned function removes it. */
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

  /** A copy of the subscribers of an execution. */
  of(execution: string): readonly T[] {
    const watchers = this.#byExecution.get(execution);
    return watchers === undefined ? [] : [...watchers];
  }

  all(): readonly T[] {
    return [...this.#byExecution.values()].flatMap((watchers) => [...watchers]);
  }
}
