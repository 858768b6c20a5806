/**
 * Sends the changes of an execution to another node that watches it, as JSON lines. The first line has the present state. If the reader
 * is slow, several changes are merged into one line.
 */
import type { ServerResponse } from "node:http";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Ending, Inspection } from "../../engine/io.ts";
import { endingOf } from "../../engine/newest.ts";
import type { Clock } from "../../std/clock.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { Owners } from "./owners.ts";
import { ALIVE_MS, type WatchLine } from "./peer-wire.ts";

export interface WatchStreamParts {
  readonly engine: Pick<EnginePort, "inspect" | "watch" | "watchLogs">;
  readonly owners: Pick<Owners, "isMine" | "onChange">;
  readonly clock: Pick<Clock, "after">;
}

export class WatchStream {
  readonly #parts: WatchStreamParts;
  readonly #execution: string;
  readonly #outgoing: ServerResponse;
  readonly #stops: (() => void)[] = [];
  #waiting: WatchLine[] = [];
  #isOpen = false;
  #isBlocked = false;
  #wasBlocked = false;
  #cancelAlive = (): void => {};

  constructor(parts: WatchStreamParts, execution: string, outgoing: ServerResponse) {
    this.#parts = parts;
    this.#execution = execution;
    this.#outgoing = outgoing;
  }

  /** Begins the stream. Returns a rejection if that fails; in that case nothing was written. */
  async begin(): Promise<Rejection | null> {
    const { engine, owners } = this.#parts;
    const execution = this.#execution;
    this.#outgoing.once("close", () => this.end());
    this.#outgoing.on("error", () => this.end());
    // The subscription begins before the state is read, so that no change is missed.
    this.#stops.push(
      engine.watch(execution, (seq, end) => (end === "stopped" ? this.end() : this.#push({ seq, end }))),
      engine.watchLogs(execution, () => this.#push({ logged: true })),
    );
    const found = await engine.inspect(execution);
    // The execution may not exist yet because it is about to start.
    if (isRejection(found) && found.code !== "not_found") {
      this.#stop();
      return found;
    }
    if (this.#outgoing.destroyed) {
      this.#stop();
      return null;
    }
    this.#outgoing.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
    this.#waiting.unshift(isRejection(found) ? {} : { ...standingOf(found), logged: true });
    this.#isOpen = true;
    this.#stops.push(owners.onChange(() => this.#endUnlessMine()));
    this.#flush();
    this.#keepAlive();
    return null;
  }

  /** Ends the stream. The other node then opens one at the present owner. */
  end(): void {
    this.#stop();
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#outgoing.end();
  }

  #endUnlessMine(): void {
    if (!this.#parts.owners.isMine(this.#execution)) this.end();
  }

  #keepAlive(): void {
    this.#cancelAlive = this.#parts.clock.after(ALIVE_MS, () => {
      this.#endUnlessMine();
      if (!this.#isOpen) return;
      // The reader has read nothing for two intervals, although the lines are short. The connection is closed; a reader that is alive
      // connects again.
      if (this.#isBlocked && this.#wasBlocked) this.#outgoing.destroy();
      this.#wasBlocked = this.#isBlocked;
      if (!this.#isBlocked) this.#write([{}]);
      this.#keepAlive();
    });
  }

  #push(line: WatchLine): void {
    const last = this.#waiting.at(-1);
    const isMore = last !== undefined && !isEnd(last) && !isEnd(line);
    if (isMore) this.#waiting[this.#waiting.length - 1] = { ...last, ...line };
    else this.#waiting.push(line);
    this.#flush();
  }

  #flush(): void {
    if (!this.#isOpen || this.#isBlocked || this.#waiting.length === 0) return;
    const lines = this.#waiting;
    this.#waiting = [];
    this.#write(lines);
  }

  #write(lines: readonly WatchLine[]): void {
    const isTaken = this.#outgoing.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    if (isTaken) return;
    this.#isBlocked = true;
    this.#outgoing.once("drain", () => {
      this.#isBlocked = false;
      this.#flush();
    });
  }

  #stop(): void {
    this.#cancelAlive();
    for (const stop of this.#stops.splice(0)) stop();
  }
}

/** Returns the state of an execution in the form that watchers get. */
export function standingOf(found: Inspection): { readonly seq: number; readonly end: Ending | null } {
  return { seq: found.view.revision, end: endingOf(found) };
}

function isEnd({ end }: WatchLine): boolean {
  return end !== undefined && end !== null;
}
