/** Runs post-operations and reports the outcome of each try. A try that exceeds its timeout counts as failed. */
import type { PostOpOutcome } from "../../kernel/message.ts";
import type { Clock } from "../../std/clock.ts";
import { atMost } from "../../std/within.ts";
import type { Input } from "../io.ts";
import type { PostOps, PostOpTask } from "./post-ops.ts";

/** How much longer than its own timeout a try of a post-operation may take before it is aborted. */
const PATIENCE_MS = 5_000;

export class PostOpRunner {
  readonly #postOps: PostOps | null;
  readonly #clock: Clock;
  readonly #onPerformed: (performed: Extract<Input, { kind: "performed" }>) => void;
  readonly #open = new Set<AbortController>();
  #onIdle: () => void = () => {};

  constructor(
    { postOps, clock }: { readonly postOps?: PostOps; readonly clock: Clock },
    onPerformed: (performed: Extract<Input, { kind: "performed" }>) => void,
  ) {
    this.#postOps = postOps ?? null;
    this.#clock = clock;
    this.#onPerformed = onPerformed;
  }

  /** Begins one try of a post-operation. If this engine has no performer, the post-operation stays owed. */
  run(task: PostOpTask): void {
    const postOps = this.#postOps;
    if (postOps === null) return;
    const abort = new AbortController();
    this.#open.add(abort);
    const end = (outcome: PostOpOutcome) => {
      if (!this.#open.delete(abort)) return;
      cancel();
      const { execution, id: op, attempt } = task;
      this.#onPerformed({ kind: "performed", execution, op, attempt, outcome });
      if (this.#open.size === 0) this.#onIdle();
    };
    const cancel = this.#clock.after(task.plan.timeoutMs + PATIENCE_MS, () => {
      end(failed("Timeout", `the post-operation did not end within ${task.plan.timeoutMs} ms`));
      abort.abort();
    });
    // The async wrapper turns synchronous errors into rejections too.
    void (async () => postOps.perform(task, abort.signal))().then(end, (thrown: unknown) =>
      end(
        thrown instanceof Error
          ? failed(thrown.name, thrown.message)
          : failed("Error", "the performer of post-operations threw something that is not an Error"),
      ),
    );
  }

  get isBusy(): boolean {
    return this.#open.size > 0;
  }

  /** Resolves when no try of a post-operation is running, or after `graceMs`. */
  async idle(graceMs: number): Promise<void> {
    if (this.#open.size === 0) return;
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
    await atMost(this.#clock, graceMs, idle);
  }

  /** Aborts all tries of post-operations. The node gets no further outcomes. */
  stop(): void {
    for (const abort of this.#open) abort.abort();
    this.#open.clear();
  }
}

function failed(name: string, message: string): PostOpOutcome {
  return { kind: "failed", error: { name, message } };
}
