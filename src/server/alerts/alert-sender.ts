/**
 * Sends alerts: as a signed POST through the guard of outgoing requests, or to a program of the operator's configuration file,
 * which gets the alert on its standard input. Programs cannot be set over the API.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { type Broadcast, type BroadcastParts, sendBroadcast } from "../../commands/post-ops/broadcast.ts";
import type { Clock } from "../../std/clock.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import type { AlertRule, Happening } from "./alert.ts";

/** A target of the configuration file. */
export interface AlertTarget {
  readonly url?: string | undefined;
  readonly command?: readonly string[] | undefined;
}

export interface AlertMessage {
  readonly id: string;
  readonly rule: Pick<AlertRule, "id" | "when">;
  readonly happening: Happening;
  readonly isTest: boolean;
}

export interface AlertSender {
  /** Returns why nothing can be sent to a target, judged by its name alone; null if it may be possible. */
  refusalOf(to: string): Rejection | null;
  /** Sends an alert, unless it is aborted. Returns why the target did not accept it; null if it did. */
  send(to: string, message: AlertMessage, signal: AbortSignal): Promise<string | null>;
}

const SEND_MS = 20_000;
const ERROR_CHARS = 300;

export class TargetSender implements AlertSender {
  readonly #targets: Readonly<Record<string, AlertTarget>>;
  readonly #broadcast: BroadcastParts;
  readonly #clock: Clock;
  /** The address of the dashboard. */
  readonly #url: () => string;

  constructor(options: {
    readonly targets: Readonly<Record<string, AlertTarget>>;
    readonly broadcast: BroadcastParts;
    readonly clock: Clock;
    readonly url: () => string;
  }) {
    this.#targets = options.targets;
    this.#broadcast = options.broadcast;
    this.#clock = options.clock;
    this.#url = options.url;
  }

  refusalOf(to: string): Rejection | null {
    if (isUrl(to)) return this.#broadcast.guard.refusalOf(to);
    if (Object.hasOwn(this.#targets, to)) return null;
    return reject("invalid_input", `to: there is no target "${to}"`, {
      path: "to",
      hint: "write a URL, or the name of a target of `alerts.targets` in the configuration file",
    });
  }

  async send(
    to: string,
    { id, rule, happening, isTest }: AlertMessage,
    signal: AbortSignal,
  ): Promise<string | null> {
    const target = isUrl(to) ? { url: to } : Object.hasOwn(this.#targets, to) ? this.#targets[to] : undefined;
    if (target === undefined) return `there is no target "${to}" in the configuration of this node`;
    const { at, text, page, data } = happening;
    const body = JSON.stringify({
      ...{ id, type: `alert.${rule.when}`, rule: rule.id, at, text },
      ...{ url: `${this.#url()}${page}`, data, ...(isTest ? { test: true } : {}) },
    });
    return target.command === undefined
      ? this.#post({ url: target.url ?? "", id, body, signal })
      : runProgram(target.command, { input: body, clock: this.#clock, signal });
  }

  async #post(post: Omit<Broadcast, "timeoutMs">): Promise<string | null> {
    const outcome = await sendBroadcast(this.#broadcast, { ...post, timeoutMs: SEND_MS });
    return outcome.kind === "done" ? null : outcome.error.message.slice(0, ERROR_CHARS);
  }
}

function isUrl(to: string): boolean {
  return /^https?:\/\//.test(to);
}

interface ProgramRun {
  readonly input: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Runs a program with the alert on its standard input. The program must exit with code 0 in time. */
function runProgram(
  command: readonly string[],
  { input, clock, signal: aborted }: ProgramRun,
): Promise<string | null> {
  const [program = "", ...args] = command;
  return new Promise((resolve) => {
    let child: ChildProcessByStdio<Writable, null, Readable>;
    try {
      child = spawn(program, args, { stdio: ["pipe", "ignore", "pipe"] });
    } catch (thrown) {
      return resolve(`${program} cannot be run: ${toError(thrown).message}`);
    }
    let said = "";
    const kill = (why: string): void => {
      child.kill("SIGKILL");
      end(`${program} ${why}`);
    };
    const abort = (): void => kill("was killed, because this node is shutting down");
    const cancel = clock.after(SEND_MS, () => kill(`did not end within ${SEND_MS / 1_000} s`));
    aborted.addEventListener("abort", abort, { once: true });
    const end = (error: string | null): void => {
      cancel();
      aborted.removeEventListener("abort", abort);
      resolve(error);
    };
    child.stderr.on("data", (data: Buffer) => {
      if (said.length < ERROR_CHARS) said += data.toString("utf8");
    });
    child.on("error", (error) => end(`${program} cannot be run: ${error.message}`));
    child.on("close", (code, signal) =>
      end(
        code === 0
          ? null
          : `${program} ended with ${code ?? signal}${said === "" ? "" : `: ${said.slice(0, ERROR_CHARS)}`}`,
      ),
    );
    // An error is ignored: if the program does not read its input, only its exit code counts.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
  });
}
