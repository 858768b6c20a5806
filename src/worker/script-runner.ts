/**
 * Runs script tasks in a sandbox. Each finished run is journaled, and a later attempt continues after the last finished run.
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import type { Outcome } from "../kernel/message.ts";
import { reportedAttempt } from "../protocol/attempt-id.ts";
import type { ScriptWork } from "../protocol/work.ts";
import { assert } from "../std/assert.ts";
import { byteLength } from "../std/json.ts";
import { RondoError } from "../std/rejection.ts";
import type { AttemptContext } from "./context.ts";
import { handedBack, threw } from "./outcome.ts";
import type { RunningScript, ScriptAttempt, ScriptEnd, ScriptEvent } from "./sandbox/script-attempt.ts";

export interface ScriptSandbox {
  run(attempt: ScriptAttempt, onEvent: (event: ScriptEvent) => void): RunningScript;
  close(): Promise<void>;
}

export interface ScriptOptions {
  /** Opens the sandbox. Throws a `RondoError` with a hint if no sandbox is possible on this machine. */
  readonly open: () => Promise<ScriptSandbox>;
  /** The most script attempts at a time. */
  readonly atOnce: number;
}

export class ScriptRunner {
  readonly #open: ScriptOptions["open"];
  #sandbox: Promise<ScriptSandbox> | null = null;

  constructor(open: ScriptOptions["open"]) {
    this.#open = open;
  }

  /** Does the unfinished runs of an attempt. Aborting the context's signal ends the attempt. */
  async run(context: AttemptContext): Promise<Outcome> {
    const { grant, around } = context.shared;
    const { script } = grant;
    assert(script !== null, "the grant of a script task contains the script");
    const finished = script.resume
      ? (context.item.checkpoints ?? []).filter(({ kind }) => kind === "run")
      : [];
    const last = finished.at(-1);
    let state = script.state ?? context.item.task ?? "null";
    if (last !== undefined && last.kind === "run") {
      const found = await around.results.checkpoint(grant.execution, last.seq);
      assert("result" in found, "every finished run has a journaled state");
      state = found.result;
    }
    if (finished.length >= script.runs.length) return doneWithState(state);
    const opened = (this.#sandbox ??= this.#open());
    let sandbox: ScriptSandbox;
    try {
      sandbox = await opened;
    } catch (thrown) {
      // The next attempt tries to open the sandbox again, because the cause of the failure may be gone by then.
      if (this.#sandbox === opened) this.#sandbox = null;
      return unavailable(thrown);
    }
    if (context.signal.aborted) return handedBack("cancelled");
    return new ScriptJob(context, script).run(sandbox, { finished: finished.length, state });
  }

  async close(): Promise<void> {
    const opened = this.#sandbox;
    this.#sandbox = null;
    // A sandbox that failed to open need not be closed. Its attempts have failed with the error.
    await opened?.then(
      (sandbox) => sandbox.close(),
      () => {},
    );
  }
}

class ScriptJob {
  readonly #context: AttemptContext;
  readonly #script: ScriptWork;
  /** Finished runs that were reported, but on which the engine has given no verdict yet. */
  readonly #unsettled: Promise<void>[] = [];
  #index = 0;
  #isStale = false;

  constructor(context: AttemptContext, script: ScriptWork) {
    this.#context = context;
    this.#script = script;
  }

  async run(
    sandbox: ScriptSandbox,
    { finished, state }: { finished: number; state: string },
  ): Promise<Outcome> {
    const { shared, item, signal } = this.#context;
    const { project, input } = shared.grant;
    this.#index = finished;
    const running = sandbox.run(
      { project, runs: this.#script.runs, finished, state, input, attempt: item.attempt },
      (event) => this.#onEvent(event, () => running.cancel("the attempt is over")),
    );
    const stop = (): void => running.cancel((signal.reason as Error).message);
    signal.addEventListener("abort", stop, { once: true });
    const end = await running.done;
    signal.removeEventListener("abort", stop);
    await Promise.all(this.#unsettled);
    return this.#isStale ? handedBack("the attempt is over") : outcomeOf(end);
  }

  #onEvent(event: ScriptEvent, cancel: () => void): void {
    const { run } = event;
    switch (event.kind) {
      case "run_started":
        this.#context.notice({ kind: "run.started", name: run, index: this.#index });
        break;
      case "log":
        this.#context.write(event.level, [event.text], { run });
        break;
      case "run_crashed": {
        const { message, stats } = event;
        const shown = this.#context.shared.around.secrets.redact(message);
        this.#context.notice({ kind: "run.crashed", name: run, index: this.#index, message: shown, stats });
        break;
      }
      case "run_finished": {
        const { state, oversized, stats } = event;
        const attempt = reportedAttempt(this.#context.shared.grant, this.#context.item);
        const said = this.#context.ask({
          kind: "run",
          ...attempt,
          name: run,
          index: this.#index++,
          state,
          oversized,
          stats,
        });
        this.#unsettled.push(
          said.then((verdict) => {
            if (verdict === "accepted" || verdict === "duplicate") return;
            this.#isStale = true;
            cancel();
          }),
        );
      }
    }
  }
}

function outcomeOf(end: ScriptEnd): Outcome {
  switch (end.kind) {
    case "done":
      return doneWithState(end.state);
    case "failed": {
      const { name, message, line, hint } = end.error;
      return {
        status: "failed",
        payload: JSON.stringify({ name, code: "script_failed", message, run: end.run, line, hint }),
        ...(end.fatal ? { fatal: true } : {}),
      };
    }
    case "killed": {
      const code = end.limit === "time" ? "timeout" : end.limit;
      return {
        status: "killed",
        payload: JSON.stringify({ name: "Killed", code, message: end.message, run: end.run }),
      };
    }
    case "crashed": {
      const { message, run } = end;
      return {
        status: "crashed",
        payload: JSON.stringify({
          name: "Crashed",
          code: "crashed",
          message,
          ...(run === null ? {} : { run }),
        }),
      };
    }
    case "cancelled":
      return handedBack(end.reason);
  }
}

/**
 * Makes the outcome of a script whose last run is finished. Its last state is the result. If the state is too large for a
 * result, the journal still has the whole state, with the last run.
 */
function doneWithState(state: string): Outcome {
  const bytes = byteLength(state);
  const isTooLarge = bytes > LIMITS.resultBytes;
  return { status: "done", payload: isTooLarge ? JSON.stringify({ oversized: true, bytes }) : state };
}

function unavailable(thrown: unknown): Outcome {
  if (!(thrown instanceof RondoError)) return threw(thrown);
  const { code, hint, message } = thrown;
  return {
    status: "failed",
    fatal: true,
    payload: JSON.stringify({ name: "ScriptsUnavailable", code, message, hint }),
  };
}
