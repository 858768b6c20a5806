/**
 * Sends alerts: as a signed POST through the guard of outgoing requests, or to a program of the operator's configuration file,
 * which gets the alert on its standard input. Programs cannot be set over the API.
 */
import { spawn } from "node:child_process";
import { type BroadcastParts, sendBroadcast } from "../../commands/post-ops/broadcast.ts";
import type { Clock } from "../../std/clock.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
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
  /** Why nothing can be sent to a target, judged by its name alone; null if it may be possible. */
  refusalOf(to: string): Rejection | null;
  /** Sends an alert. Returns why the target did not take it; null if it did. */
  send(to: string, message: AlertMessage): Promise<string | null>;
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

  async send(to: string, { id, rule, happening, isTest }: AlertMessage): Promise<string | null> {
    const target = isUrl(to) ? { url: to } : Object.hasOwn(this.#targets, to) ? this.#targets[to] : undefined;
    if (target === undefined) return `there is no target "${to}" in the configuration of this node`;
    const { at, text, page, data } = happening;
    const body = JSON.stringify({
      ...{ id, type: `alert.${rule.when}`, rule: rule.id, at, text },
      ...{ url: `${this.#url()}${page}`, data, ...(isTest ? { test: true } : {}) },
    });
    return target.command === undefined
      ? this.#post(target.url ?? "", id, body)
      : runProgram(target.command, body, this.#clock);
  }

  async #post(url: string, id: string, body: string): Promise<string | null> {
    const signal = new AbortController().signal;
    const outcome = await sendBroadcast(this.#broadcast, { id, url, body, timeoutMs: SEND_MS, signal });
    return outcome.kind === "done" ? null : outcome.error.message.slice(0, ERROR_CHARS);
  }
}

function isUrl(to: string): boolean {
  return /^https?:\/\//.test(to);
}

/** Runs a program with the alert on its standard input. It must end with 0 in time. */
function runProgram(command: readonly string[], input: string, clock: Clock): Promise<string | null> {
  const [program = "", ...args] = command;
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ["pipe", "ignore", "pipe"] });
    let said = "";
    const cancel = clock.after(SEND_MS, () => {
      child.kill("SIGKILL");
      end(`${program} did not end within ${SEND_MS / 1_000} s`);
    });
    const end = (error: string | null): void => {
      cancel();
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
    // A program that does not read its input is judged by its exit code.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
  });
}
