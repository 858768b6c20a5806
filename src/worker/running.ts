/**
 * Attempts whose code goes on after the turn in which it began. The attempts of one `processBatch` share an abort signal and a
 * time limit.
 */

import type { Outcome } from "../kernel/message.ts";
import type { Beat, GrantItem } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { TransientMap } from "../std/transient-map.ts";
import { samePlace } from "./attempt-place.ts";
import type { AttemptContext } from "./context.ts";
import { handedBack, outOfTime } from "./outcome.ts";
import type { TaskSpan } from "./tracing.ts";

export interface Running {
  /** A number that no other attempt of this worker has had. */
  readonly n: number;
  readonly context: AttemptContext;
  readonly item: GrantItem;
  readonly since: number;
  /** The span of the attempt; null if the program has no tracer. */
  readonly span: TaskSpan | null;
  /** The attempts that share one call of `processBatch`; null if the attempt has its own call. */
  readonly group: Group | null;
  /** Whether the engine has cancelled the attempt. The receipt of a cancelled attempt is sent only when its code has ended. */
  isCancelled: boolean;
  hasEnded: boolean;
  /** Whether the start of the attempt was reported. */
  isReported: boolean;
  /** Stops the timer of the time limit; null if the attempt has no time limit. */
  stopTimer: (() => void) | null;
}

interface Group {
  readonly attempts: readonly Running[];
  /** The number of attempts of the group that have not ended. */
  open: number;
  /** The first outcome of the group that is not `done`. */
  trouble: Outcome | null;
}

type Begun = Pick<Running, "context" | "since" | "span">;

export class RunningAttempts {
  readonly #attempts = new TransientMap<number, Running>();
  #added = 0;
  readonly #clock: Clock;
  readonly #onEnd: (running: Running, outcome: Outcome) => void;

  constructor(clock: Clock, onEnd: (running: Running, outcome: Outcome) => void) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  get size(): number {
    return this.#attempts.size;
  }

  all(): Generator<Running> {
    return this.#attempts.values();
  }

  /** Adds a running attempt. Its time limit begins now. */
  add(context: AttemptContext, since: number, span: TaskSpan | null): Running {
    const running = this.#add({ context, since, span }, context.item, null);
    context.running = running;
    const { timeoutMs } = context.shared.grant;
    if (timeoutMs !== null) running.stopTimer = this.#limit([running], timeoutMs);
    return running;
  }

  addGroup(begun: Begun, items: readonly GrantItem[]): readonly Running[] {
    const attempts: Running[] = [];
    const group = { attempts, open: items.length, trouble: null };
    for (const item of items) attempts.push(this.#add(begun, item, group));
    const { timeoutMs } = begun.context.shared.grant;
    const stopTimer = timeoutMs === null ? null : this.#limit(attempts, timeoutMs);
    for (const running of attempts) running.stopTimer = stopTimer;
    return attempts;
  }

  /** Ends an attempt, unless it has ended. */
  end(running: Running, outcome: Outcome): void {
    if (running.hasEnded) return;
    const { group, stopTimer } = running;
    running.hasEnded = true;
    this.#attempts.delete(running.n);
    if (group !== null) group.open--;
    if (stopTimer !== null && (group === null || group.open === 0)) stopTimer();
    this.#onEnd(running, outcome);
  }

  /** Stops the attempts that `beat` lists. If code also works for other attempts of its batch, it goes on. */
  cancel(beat: Beat, why: "cancel" | "lost"): void {
    for (const named of beat.attempts) {
      const running = this.#find(beat, named);
      if (running === undefined) continue;
      running.isCancelled = true;
      const others = running.group?.attempts ?? [];
      if (others.every(({ isCancelled, hasEnded }) => isCancelled || hasEnded))
        running.context.abort(new Error(why === "cancel" ? "cancelled" : "lease lost"));
      // A cancelled attempt gets its receipt only when its code has ended. Until then, its phase cannot end.
      if (why === "lost") this.end(running, handedBack(why));
    }
  }

  /** Hands back all running attempts with this outcome. */
  abandon(why: Error, outcome: Outcome): void {
    for (const running of [...this.#attempts.values()]) {
      running.context.abort(why);
      this.end(running, outcome);
    }
  }

  #find(beat: Beat, { task, attempt, claim }: Beat["attempts"][number]): Running | undefined {
    for (const running of this.#attempts.values()) {
      const { item, context } = running;
      if (item.number !== task || item.attempt !== attempt || item.claim !== claim) continue;
      if (samePlace(context.shared.grant, beat)) return running;
    }
    return undefined;
  }

  #add({ context, since, span }: Begun, item: GrantItem, group: Group | null): Running {
    const running = {
      n: ++this.#added,
      context,
      item,
      since,
      span,
      group,
      isCancelled: false,
      hasEnded: false,
      isReported: false,
      stopTimer: null,
    };
    this.#attempts.set(running.n, running);
    return running;
  }

  #limit(attempts: readonly Running[], timeoutMs: number): () => void {
    return this.#clock.after(timeoutMs, () => {
      attempts[0]?.context.abort(new Error(`ran longer than ${timeoutMs} ms`));
      for (const running of attempts) this.end(running, outOfTime(timeoutMs));
    });
  }
}
