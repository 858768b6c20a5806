/** Those who wait for what comes out of a node: askers, workers with reports, and whoever follows an execution. */
import type { Verdict } from "../../kernel/message.ts";
import type { Rejection } from "../../std/rejection.ts";
import type { Progress, Reply } from "../driver-options.ts";
import type { Inspection, Output } from "../io.ts";
import { Pending } from "./pending.ts";
import { Subscribers } from "./subscribers.ts";

type Word = Extract<Output, { kind: "reply" | "inspected" | "verdicts" | "progressed" | "logged" }>;

export class PendingReplies {
  readonly replies = new Pending<number, Reply>();
  readonly inspections = new Pending<number, Inspection | Rejection>();
  readonly verdicts = new Pending<string, readonly (readonly Verdict[])[]>();
  readonly watchers = new Subscribers<Progress>();
  readonly logWatchers = new Subscribers<() => void>();

  hear(word: Word): void {
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
