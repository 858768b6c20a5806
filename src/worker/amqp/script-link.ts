/**
 * Scripts over a broker: the attempt arrives from a queue, and the worker uses the server's HTTP API for everything else, with
 * the attempt's own token. It reads the runs and the state, and sends notices, logs and heartbeats. Reports of one attempt are
 * sent one after the other, and repeated until a server answers. The receipt goes to the broker afterwards.
 */

import type { RunStats } from "../../kernel/event.ts";
import { HttpConnection } from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import type { TaskMessage } from "../../protocol/amqp-wire.ts";
import {
  type Checkpoint,
  type Grant,
  type Report,
  SCRIPT_USE,
  type ScriptWork,
} from "../../protocol/work.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { every, sleep } from "../../std/within.ts";
import { noteRun, type RunStatuses } from "../run-statuses.ts";
import type { ScriptOptions } from "../script-runner.ts";
import type { HeldTask } from "./held-attempts.ts";

export interface ScriptLinkOptions {
  readonly scripts: ScriptOptions;
  /** The addresses of the servers: `http(s)://host:port` or `unix:<path>`. */
  readonly addresses: readonly string[];
  readonly clock: Clock;
  readonly random: Random;
  /** Called when the attempt must stop, because it was cancelled or its lease is lost. */
  readonly onStop: (held: HeldTask, why: "cancel" | "lost") => void;
  readonly onNote: (what: string) => void;
  readonly onBug: (thrown: unknown) => void;
}

interface OpenScript {
  readonly held: HeldTask;
  runs: RunStatuses | null;
  /** Resolves when the server has answered all reports so far. */
  sent: Promise<unknown>;
  readonly stopBeats: () => void;
}

interface ScriptAnswer {
  readonly project: string;
  readonly finished: number;
  readonly state: unknown;
  readonly runs: ScriptWork["runs"];
}

const REQUEST_MS = 10_000;
const BEAT_MS = 10_000;

export class ScriptLink {
  readonly #options: ScriptLinkOptions;
  readonly #servers: HttpConnection[];
  readonly #open = new TransientMap<string, OpenScript>();
  /** The states of scripts before their next run. The checkpoint of a grant contains the key of its state in this map. */
  readonly #states = new Map<number, string>();
  #number = 0;
  #isClosed = false;

  constructor(options: ScriptLinkOptions) {
    this.#options = options;
    this.#servers = options.addresses.map((address) => new HttpConnection({ address }));
  }

  get scripts(): ScriptOptions {
    return this.#options.scripts;
  }

  /**
   * Reads the runs and the state of an attempt from the server. Returns null if the attempt has ended, undefined if the worker
   * is stopping.
   */
  async read(held: HeldTask, grant: Grant, message: TaskMessage): Promise<Grant | null | undefined> {
    const text = await this.#request(held, { method: "GET", path: "/runs" });
    if (text === null) return this.#isClosed ? undefined : null;
    const { project, finished, state, runs } = JSON.parse(text) as ScriptAnswer;
    const stateText = JSON.stringify(state);
    const { task, attempt, claim } = held.at;
    const checkpoints: Checkpoint[] = runs
      .slice(0, finished)
      .map(({ name }) => ({ kind: "run", name, seq: this.#number }));
    if (finished > 0) {
      this.#states.set(++this.#number, stateText);
      checkpoints[finished - 1] = { kind: "run", name: runs[finished - 1]?.name ?? "", seq: this.#number };
    }
    const stopBeats = every(this.#options.clock, BEAT_MS, () => this.#beat(held));
    this.#open.set(held.id, { held, runs: null, sent: Promise.resolve(), stopBeats });
    return {
      ...grant,
      do: "script",
      use: SCRIPT_USE,
      project,
      script: { runs, state: stateText, resume: true },
      items: [
        {
          number: task,
          attempt,
          claim,
          task: JSON.stringify(message.data ?? null),
          checkpoints: checkpoints.length === 0 ? null : checkpoints,
        },
      ],
    };
  }

  /** Returns and removes the state of a checkpoint that `read` has made. */
  state(seq: number): { readonly result: string } {
    const result = this.#states.get(seq) ?? "null";
    this.#states.delete(seq);
    return { result };
  }

  /**
   * Sends a report about an attempt after its earlier reports, and resolves with the server's verdict. Resolves with null if
   * the attempt runs no script.
   */
  send(id: string, report: Report): Promise<string> | null {
    const open = this.#open.get(id);
    if (open === undefined) return null;
    noteRun(open, report, this.#options.clock);
    const request = requestOf(report);
    if (request === null) return null;
    const verdict = open.sent.then(() => this.#post(open.held, request));
    open.sent = verdict.catch(this.#options.onBug);
    return verdict;
  }

  /** Called when the attempt has ended. Resolves when the server has answered all its reports. */
  async end(id: string): Promise<void> {
    const open = this.#open.get(id);
    if (open === undefined) return;
    await open.sent;
    open.stopBeats();
    this.#open.delete(id);
  }

  /** The status of a run; null if this worker does not have the attempt, or has not begun the run. */
  about(id: string, run: string): Readonly<Record<string, unknown>> | null {
    const found = this.#open.get(id)?.runs?.get(run);
    return found === undefined ? null : { attempt: id, run, ...found };
  }

  close(): void {
    this.#isClosed = true;
    for (const { stopBeats } of this.#open.values()) stopBeats();
    for (const server of this.#servers) server.close();
  }

  #beat(held: HeldTask): void {
    this.#request(held, { method: "POST", path: "/status", body: { status: "running" } })
      .then((text) => {
        const word = text === null ? "lost" : (JSON.parse(text) as { readonly word?: string }).word;
        if ((word === "cancel" || word === "lost") && this.#open.has(held.id))
          this.#options.onStop(held, word);
      })
      .catch(this.#options.onBug);
  }

  async #post(held: HeldTask, request: AttemptRequest): Promise<string> {
    const text = await this.#request(held, request);
    return text === null
      ? "stale"
      : ((JSON.parse(text) as { readonly verdict?: string }).verdict ?? "accepted");
  }

  /**
   * Sends a request; returns the text of the answer, or null if the attempt has ended or the server refused the request for
   * good.
   */
  async #request(held: HeldTask, { method, path, body }: AttemptRequest): Promise<string | null> {
    const { clock, random, onNote } = this.#options;
    const backOff = new BackOff({ random });
    const request = {
      method,
      path: `/v1/attempts/${encodeURIComponent(held.id)}${path}`,
      headers: { authorization: `Bearer ${held.token}` },
      timeoutMs: REQUEST_MS,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    while (!this.#isClosed) {
      for (const server of this.#servers) {
        const answer = await server.send(request).catch((thrown: unknown) => {
          if (thrown instanceof HttpFault) return null;
          throw thrown;
        });
        if (answer === null) continue;
        if (answer.status < 300) return answer.text;
        const code = codeOf(answer.text);
        // Another node owns the execution, or this node cannot answer now. So the next server is tried.
        if (code === "not_owner" || answer.status >= 500 || answer.status === 429) continue;
        if (code !== "stale_attempt")
          onNote(
            `the server refuses the request ${path} of the attempt ${held.id}: ${answer.text.slice(0, 200)}`,
          );
        return null;
      }
      await sleep(clock, backOff.next());
    }
    return null;
  }
}

interface AttemptRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
}

/** Converts a report into a request; null if the server does not need this report. */
function requestOf(report: Report): AttemptRequest | null {
  const post = (path: string, body: unknown): AttemptRequest => ({ method: "POST", path, body });
  switch (report.kind) {
    case "accepted":
    case "started":
      return post("/status", { status: report.kind });
    case "run.started":
      return post("/status", { status: "started", run: report.name });
    case "run":
      return post("/status", {
        status: "done",
        run: report.name,
        state: JSON.parse(report.state) as unknown,
        stats: whole(report.stats),
      });
    case "run.crashed": {
      const { name: run, message, stats } = report;
      return post("/status", {
        status: "crashed",
        run,
        message,
        ...(stats === null ? {} : { stats: whole(stats) }),
      });
    }
    case "logs":
      return post("/logs", {
        lines: report.lines.map(({ text, level, at, run }) => ({
          text,
          level,
          at,
          ...(run === undefined ? {} : { run }),
        })),
      });
    default:
      return null;
  }
}

function whole({ durationMs, memoryBytes }: RunStats): RunStats {
  return { durationMs: Math.round(durationMs), memoryBytes: Math.round(memoryBytes) };
}

function codeOf(text: string): string | null {
  try {
    return (JSON.parse(text) as { readonly code?: string } | null)?.code ?? null;
  } catch {
    // A proxy may answer with something other than JSON.
    return null;
  }
}
