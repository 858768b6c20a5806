/**
 * Watches executions, whichever node owns them. All watchers of an execution share one subscription.
 * 1. An execution of this node is watched at this node's engine, an execution of another node by a stream from that node.
 * 2. When the execution moves to another node, or the stream ends, the subscription begins again at the present owner. The execution may
 *    have changed in between, so the watchers get its present state.
 * 3. The number of streams is bounded. Beyond it, executions are polled every two seconds.
 */

import type { Progress } from "../../engine/driver-options.ts";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Inspection } from "../../engine/io.ts";
import { HttpFault } from "../../net/http-fault.ts";
import { backOffMs } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import { SparseSet } from "../../std/sparse.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { sleep } from "../../std/within.ts";
import { DAMAGED } from "../../store/store.ts";
import { PEER_RETRY } from "./ask-owner.ts";
import type { Owners } from "./owners.ts";
import type { PeerAnswer, PeerClient } from "./peer-client.ts";
import { ALIVE_MS, type WatchLine } from "./peer-wire.ts";
import { standingOf } from "./watch-stream.ts";

export interface FollowersParts {
  readonly engine: Pick<EnginePort, "watch" | "watchLogs" | "inspect">;
  readonly owners: Owners;
  readonly client: Pick<PeerClient, "open" | "call">;
  readonly clock: Pick<Clock, "after">;
  readonly random: Random;
  readonly streamsMax?: number;
}

interface Following {
  readonly execution: string;
  readonly progress: SparseSet<Progress>;
  readonly logged: SparseSet<() => void>;
  /** The owner and the epoch of the execution when the subscription began. */
  term: string;
  /** The number of the last event that the watchers were told. */
  seq: number;
  isDamaged: boolean;
  tries: number;
  cut: () => void;
}

const STREAMS_MAX = 1_000;
const POLL_MS = 2_000;
const SILENCE_MS = 3 * ALIVE_MS;

export class Followers {
  readonly #parts: FollowersParts;
  readonly #byExecution = new TransientMap<string, Following>();
  readonly #unlisten: () => void;
  #streams = 0;
  #isClosed = false;

  constructor(parts: FollowersParts) {
    this.#parts = parts;
    this.#unlisten = parts.owners.onChange(() => this.#moved());
  }

  /** Calls `progress` after every commit of the execution. Returns a function that stops the calls. */
  watch(execution: string, progress: Progress): () => void {
    // Each call adds a separate watcher, even if the function is the same.
    const watcher: Progress = (seq, end) => progress(seq, end);
    const following = this.#following(execution);
    following.progress.add(watcher);
    return () => {
      following.progress.delete(watcher);
      this.#maybeEnd(following);
    };
  }

  /** Calls `logged` after new log lines. Returns a function that stops the calls. */
  watchLogs(execution: string, logged: () => void): () => void {
    const watcher = () => logged();
    const following = this.#following(execution);
    following.logged.add(watcher);
    return () => {
      following.logged.delete(watcher);
      this.#maybeEnd(following);
    };
  }

  get counts(): { readonly executions: number; readonly streams: number } {
    return { executions: this.#byExecution.size, streams: this.#streams };
  }

  /** Ends all watches. Watchers are notified that this node has stopped. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#unlisten();
    for (const following of [...this.#byExecution.values()]) {
      following.cut();
      for (const progress of [...following.progress]) progress(-1, "stopped");
    }
    this.#byExecution.clear();
  }

  #following(execution: string): Following {
    const known = this.#byExecution.get(execution);
    if (known !== undefined) return known;
    const following: Following = {
      execution,
      progress: new SparseSet(),
      logged: new SparseSet(),
      term: "",
      seq: -1,
      isDamaged: false,
      tries: 0,
      cut: () => {},
    };
    this.#byExecution.set(execution, following);
    if (!this.#isClosed) this.#begin(following);
    return following;
  }

  #maybeEnd(following: Following): void {
    if (following.progress.size > 0 || following.logged.size > 0) return;
    if (this.#byExecution.get(following.execution) !== following) return;
    this.#byExecution.delete(following.execution);
    following.cut();
  }

  /** Called when partitions have changed their owners. Subscriptions to executions that moved begin again. */
  #moved(): void {
    for (const following of [...this.#byExecution.values()]) {
      if (following.term === this.#parts.owners.termOf(following.execution)) continue;
      following.tries = 0;
      this.#again(following);
    }
  }

  #again(following: Following): void {
    following.cut();
    following.cut = () => {};
    if (this.#isClosed || this.#byExecution.get(following.execution) !== following) return;
    this.#begin(following);
  }

  #begin(following: Following): void {
    const { owners, streamsMax = STREAMS_MAX } = this.#parts;
    const isFirst = following.term === "";
    following.term = owners.termOf(following.execution);
    const owner = owners.ownerOf(following.execution);
    if (owner.kind === "me") return this.#watchHere(following, isFirst);
    if (owner.kind === "nobody") return this.#later(following);
    const abort = new AbortController();
    following.cut = () => abort.abort();
    const work =
      this.#streams < streamsMax
        ? this.#stream(following, owner.url, abort.signal)
        : this.#poll(following, owner.url, abort.signal);
    void work.then((isHeard) => {
      if (abort.signal.aborted) return;
      if (isHeard) following.tries = 0;
      this.#later(following);
    });
  }

  #watchHere(following: Following, isFirst: boolean): void {
    const { engine } = this.#parts;
    const { execution } = following;
    let isCut = false;
    const stops = [
      engine.watch(execution, (seq, end) => this.#notify(following, seq, end)),
      engine.watchLogs(execution, () => this.#notifyLogged(following)),
    ];
    following.cut = () => {
      isCut = true;
      for (const stop of stops) stop();
    };
    // A new watcher reads the present state itself. After a move to another node, the watchers get the present state by this call.
    if (isFirst) return;
    void engine.inspect(execution).then((found) => {
      if (isCut) return;
      if (isRejection(found) && found.code === "not_owner") this.#later(following);
      else this.#onState(following, found);
    });
  }

  /** Tries to subscribe again a little later, or as soon as the execution has moved. */
  #later(following: Following): void {
    const { clock, random, owners } = this.#parts;
    owners.refresh();
    following.cut();
    following.cut = clock.after(backOffMs(following.tries++, { ...PEER_RETRY, random }), () =>
      this.#again(following),
    );
  }

  /** Follows a stream to its end. Returns true if at least one line arrived. */
  async #stream(following: Following, url: string, signal: AbortSignal): Promise<boolean> {
    const { client, clock } = this.#parts;
    const silence = new AbortController();
    let cancel = clock.after(SILENCE_MS, () => silence.abort());
    let isHeard = false;
    this.#streams++;
    try {
      const body = { v: 1, execution: following.execution };
      const both = AbortSignal.any([signal, silence.signal]);
      const answer = await client.open<WatchLine>(url, "watch", body, both);
      if (answer.kind !== "answered") return false;
      for await (const { seq, end = null, logged } of answer.value) {
        if (signal.aborted) break;
        isHeard = true;
        cancel();
        cancel = clock.after(SILENCE_MS, () => silence.abort());
        if (seq !== undefined) this.#notify(following, seq, end);
        if (logged === true) this.#notifyLogged(following);
      }
    } catch (thrown) {
      // The stream was cut. The caller opens another one at the present owner.
      if (!(thrown instanceof HttpFault)) throw thrown;
    } finally {
      cancel();
      this.#streams--;
    }
    return isHeard;
  }

  async #poll(following: Following, url: string, signal: AbortSignal): Promise<boolean> {
    const { client, clock } = this.#parts;
    const body = { v: 1, execution: following.execution };
    const answer: PeerAnswer<{ inspection: Inspection | Rejection }> = await client.call(
      url,
      "inspect",
      body,
      {
        signal,
      },
    );
    if (signal.aborted || answer.kind !== "answered") return false;
    this.#onState(following, answer.value.inspection);
    await sleep(clock, POLL_MS, signal);
    return true;
  }

  /** Passes the state of an execution to its watchers, if they do not know it yet. */
  #onState(following: Following, found: Inspection | Rejection): void {
    if (isRejection(found)) return;
    const { seq, end } = standingOf(found);
    // The polled state may be older than one that has arrived by the stream in the meantime.
    if (seq > following.seq || isDamage(end) !== following.isDamaged) this.#notify(following, seq, end);
    this.#notifyLogged(following);
  }

  #notify(following: Following, ...[seq, end]: Parameters<Progress>): void {
    following.seq = seq;
    following.isDamaged = isDamage(end);
    for (const progress of [...following.progress]) progress(seq, end);
  }

  #notifyLogged(following: Following): void {
    for (const logged of [...following.logged]) logged();
  }
}

function isDamage(end: Parameters<Progress>[1]): boolean {
  return end !== null && end !== "stopped" && end.status === DAMAGED;
}
