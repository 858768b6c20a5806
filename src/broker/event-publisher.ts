/**
 * Publishes the journal's events on a topic exchange, at least once, in order within an execution.
 *
 * 1. What an engine commits goes out at once. When a batch is confirmed, the engine is told how far it is.
 * 2. What is too much to keep, or was committed while there was no broker, is behind: the store says which executions
 *    are (engine/mailbox/outbox.ts), and each of them gives out the rest of its journal once it is in memory.
 * 3. Receipts of commands that counted go out once more, on an exchange of their own (receipt-relay.ts).
 * 4. The end of an execution is told to a queue of its own as well, where somebody has made one.
 */

import type { EnginePort } from "../engine/engine-port.ts";
import { EVENTS_DUE } from "../engine/mailbox/outbox.ts";
import type { EventsOut } from "../engine/mailbox/outbox-port.ts";
import { encodeName } from "../kernel/definition/names.ts";
import type { Recorded } from "../kernel/event.ts";
import { decodeReadable } from "../kernel/journal/journal-entry.ts";
import { publicEvent } from "../kernel/journal/public-event.ts";
import type { Clock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";
import { toFault } from "./broker-fault.ts";
import type { BrokerNames } from "./names.ts";
import type { Outgoing, Publisher } from "./publisher.ts";
import { receiptMessage } from "./topics/receipt-relay.ts";

export interface EventPublisherOptions {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly isUp: () => boolean;
  readonly onFault: (fault: Error) => void;
}

/** Commits whose events are kept in memory; beyond that they are read from the journal later. */
const WAITING_MAX = 2_000;
/** Events that are not confirmed. */
const UNDER_WAY_MAX = 2_000;
const SCAN_MAX = 500;
const AGAIN_MS = 1_000;
const ROWS = 32;
const CHARS = 1_048_576;

export class EventPublisher {
  readonly #options: EventPublisherOptions;
  #waiting: EventsOut[] = [];
  /** What is to be done when an event is confirmed, by its id. */
  readonly #confirmed = new Map<string, () => void>();
  #underWay = 0;
  #isBusy = false;
  /** There are executions that are behind and have to be looked for. */
  #isBehind = true;
  #stop: (() => void) | null = null;
  #scope = "";

  constructor(options: EventPublisherOptions) {
    this.#options = options;
    options.engine.outbox.listen((out) => this.#take(out));
  }

  /** There is a broker, or again: whatever is behind is looked for. */
  attach(): void {
    this.#isBehind = true;
    this.#goOn();
  }

  /** Partitions may have come: with them, what their last owners have not published. */
  look(): void {
    const scope = String(this.#options.engine.outbox.scope);
    if (scope === this.#scope) return;
    this.#scope = scope;
    this.attach();
  }

  close(): void {
    this.#stop?.();
    this.#options.engine.outbox.listen(() => {});
  }

  #take(out: EventsOut): void {
    // Without a broker nothing is kept: the store knows it.
    if (!this.#options.isUp() || this.#waiting.length >= WAITING_MAX) this.#isBehind = true;
    else {
      this.#waiting.push(out);
      this.#goOn();
    }
  }

  #goOn(): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#run()
      .catch((thrown: unknown) => {
        this.#isBehind = true;
        this.#options.onFault(thrown instanceof Error ? thrown : toFault(thrown));
        this.#later();
      })
      .finally(() => {
        this.#isBusy = false;
      });
  }

  async #run(): Promise<void> {
    const { isUp } = this.#options;
    while (isUp()) {
      if (this.#underWay >= UNDER_WAY_MAX) return;
      const next = this.#waiting.shift();
      if (next !== undefined) {
        await this.#publish(next);
        continue;
      }
      if (!this.#isBehind || this.#underWay > 0) return;
      this.#isBehind = false;
      if (!(await this.#callBehind())) return;
    }
  }

  /** Has executions that are behind give out what they have; false: there are none. */
  async #callBehind(): Promise<boolean> {
    const { store, engine } = this.#options;
    const rows = await store.scanTimers({
      from: EVENTS_DUE,
      until: EVENTS_DUE,
      max: SCAN_MAX,
      partitions: engine.outbox.scope,
    });
    if (rows.length === 0) return false;
    // What has come meanwhile is among it.
    this.#waiting = [];
    engine.outbox.again();
    // Looked at, an execution comes into memory.
    await Promise.all(rows.map(({ execution }) => engine.inspect(execution)));
    if (rows.length >= SCAN_MAX) this.#later();
    return this.#waiting.length > 0;
  }

  #later(): void {
    this.#stop ??= this.#options.clock.after(AGAIN_MS, () => {
      this.#stop = null;
      this.attach();
    });
  }

  async #publish({ execution, from, to, rows, plan }: EventsOut): Promise<void> {
    if (rows !== null) return this.#send({ execution, plan }, rows.flatMap(decodeReadable), to);
    const { store } = this.#options;
    for (let next = from; next <= to; ) {
      const entries = await store.readJournal({ execution, from: next, to, rowsMax: ROWS, charsMax: CHARS });
      const first = next;
      const found = entries.flatMap(decodeReadable).filter(({ seq }) => seq >= first && seq <= to);
      // Events of a damaged row cannot be published: its execution shows as damaged.
      if (found.length === 0) return;
      next = (found.at(-1) as Recorded).seq + 1;
      this.#send({ execution, plan }, found, next - 1);
    }
  }

  /** Publishes all of them, and the receipts among them once more for their readers; then tells the engine how far it is. */
  #send(
    { execution, plan }: Pick<EventsOut, "execution" | "plan">,
    events: readonly Recorded[],
    upTo: number,
  ): void {
    const { names, engine } = this.#options;
    const messages = events.flatMap((recorded) => {
      const { seq, event } = recorded;
      const shown = publicEvent(execution, recorded, "summary");
      const message = {
        exchange: names.events,
        key: names.eventKey(shown.kind),
        id: `${encodeName(execution)}/${seq}`,
        body: Buffer.from(JSON.stringify(shown)),
      };
      const receipt =
        event.kind === "command.receipted" ? receiptMessage(names, { execution, seq, plan }, event) : null;
      return receipt === null ? [message] : [message, receipt];
    });
    let open = messages.length;
    this.#underWay += open;
    const done = (): void => {
      this.#underWay--;
      open--;
      if (open === 0) engine.outbox.published(execution, upTo);
      if (this.#underWay === UNDER_WAY_MAX - 1 || this.#underWay === 0) this.#goOn();
    };
    for (const message of messages) this.#sendOne(message, done);
    for (const { seq, event } of events)
      if (event.kind === "finished")
        this.#tellEnd(execution, event.status, `${encodeName(execution)}/${seq}`);
  }

  #sendOne(message: Outgoing, done: () => void): void {
    const { id } = message;
    // An execution that was loaded anew gives out again what is under way: one confirmation is for both.
    const before = this.#confirmed.get(id);
    this.#confirmed.set(id, () => {
      before?.();
      done();
    });
    this.#options.publisher.publish({
      ...message,
      done: () => {
        const confirmed = this.#confirmed.get(id);
        this.#confirmed.delete(id);
        confirmed?.();
      },
    });
  }

  #tellEnd(execution: string, status: string, id: string): void {
    const { names, publisher } = this.#options;
    publisher.publish({
      key: names.ended(execution),
      id: `${id}~ended`,
      body: Buffer.from(JSON.stringify({ workflow_id: execution, status })),
    });
  }
}
