/**
 * Publishes the journal's events on a topic exchange, at least once, in order within an execution.
 * 1. Events are published after their commit. When the broker has confirmed a batch, the publisher tells the engine up to which event the
 *    journal is published.
 * 2. An execution is behind if some of its events were not published: there was no connection, or too many events to keep in memory. The
 *    store lists the executions that are behind (engine/mailbox/outbox.ts). When one is loaded, it hands out its unpublished events.
 * 3. Receipts of commands that the engine has counted are also published on an exchange of their own.
 * 4. The end of an execution is also published to a queue of its own, if a client has declared one.
 * 5. Events for which no queue is bound are not published, apart from a few that test whether a queue is bound (event-routes.ts).
 */

import { EVENTS_DUE, type EventsOut } from "../engine/mailbox/outbox.ts";
import { procErr } from "../kernel/command/command-state.ts";
import { ownCommands } from "../kernel/command/own-command.ts";
import { encodeName } from "../kernel/definition/names.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import type { CommandReceipted, Recorded } from "../kernel/event.ts";
import { decodeReadable } from "../kernel/journal/journal-entry.ts";
import { publicEvent } from "../kernel/journal/public-event.ts";
import { toFault } from "../net/amqp/broker-fault.ts";
import type { Outgoing } from "../net/amqp/publisher.ts";
import { defined } from "../std/defined.ts";
import type { Json } from "../std/json.ts";
import { TransientMap } from "../std/transient-map.ts";
import type { BridgeParts } from "./bridge-parts.ts";
import { EventRoutes, type Route } from "./event-routes.ts";
import type { BrokerNames } from "./names.ts";

type Shared = Pick<BridgeParts, "engine" | "store" | "clock" | "names" | "publisher" | "onFault">;

export interface EventPublisherOptions extends Shared {
  readonly isUp: () => boolean;
}

/** The most commits whose events wait in memory to be published. The events of further commits are later read from the journal. */
const WAITING_MAX = 2_000;
const UNCONFIRMED_MAX = 2_000;
const SCAN_MAX = 500;
const RETRY_MS = 1_000;
const ROWS = 32;
const CHARS = 1_048_576;

export class EventPublisher {
  readonly #options: EventPublisherOptions;
  #waiting: Arrived[] = [];
  /** The number of commits whose events have arrived at this publisher. */
  #arrived = 0;
  readonly #routes = new EventRoutes();
  /** Callbacks for events that the broker has not confirmed, by event id. */
  readonly #callbacks = new TransientMap<string, (isRouted: boolean) => void>();
  #unconfirmed = 0;
  #isBusy = false;
  /** Whether some executions may have unpublished events that are not in memory. */
  #isBehind = true;
  #stop: (() => void) | null = null;
  #scope = "";

  constructor(options: EventPublisherOptions) {
    this.#options = options;
    options.engine.outbox.listen((out) => this.#add(out));
  }

  /** Called when a connection is made: publishes the events of executions that are behind. */
  attach(): void {
    this.#isBehind = true;
    this.#resume();
  }

  /** Called after a takeover of partitions: publishes the events that their last owners have not published. */
  checkPartitions(): void {
    const scope = String(this.#options.engine.outbox.scope);
    if (scope === this.#scope) return;
    this.#scope = scope;
    this.attach();
  }

  close(): void {
    this.#stop?.();
    this.#options.engine.outbox.listen(() => {});
  }

  #add(out: EventsOut): void {
    // While there is no connection, events are not kept in memory. They are read from the store later.
    if (!this.#options.isUp() || this.#waiting.length >= WAITING_MAX) this.#isBehind = true;
    else {
      this.#waiting.push({ out, number: ++this.#arrived });
      this.#resume();
    }
  }

  #resume(): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#run()
      .catch((thrown: unknown) => {
        this.#isBehind = true;
        this.#options.onFault(thrown instanceof Error ? thrown : toFault(thrown));
        this.#retryLater();
      })
      .finally(() => {
        this.#isBusy = false;
      });
  }

  async #run(): Promise<void> {
    const { isUp } = this.#options;
    // Waits until all events of the commit have arrived. One published message then shows for all of them whether a queue is bound.
    await Promise.resolve();
    while (isUp()) {
      if (this.#unconfirmed >= UNCONFIRMED_MAX) return;
      const next = this.#waiting.shift();
      if (next !== undefined) {
        await this.#publish(next);
        continue;
      }
      if (!this.#isBehind || this.#unconfirmed > 0) return;
      this.#isBehind = false;
      if (!(await this.#loadBehind())) return;
    }
  }

  /** Loads executions with unpublished events, so that they hand these events out. Returns false if there are none. */
  async #loadBehind(): Promise<boolean> {
    const { store, engine } = this.#options;
    const rows = await store.scanTimers({
      from: EVENTS_DUE,
      until: EVENTS_DUE,
      max: SCAN_MAX,
      partitions: engine.outbox.scope,
    });
    if (rows.length === 0) return false;
    // The waiting events are dropped from memory: their executions hand them out again.
    this.#waiting = [];
    engine.outbox.again();
    // The inspection has one purpose: it loads the execution into memory.
    await Promise.all(rows.map(({ execution }) => engine.inspect(execution)));
    if (rows.length >= SCAN_MAX) this.#retryLater();
    return this.#waiting.length > 0;
  }

  #retryLater(): void {
    this.#stop ??= this.#options.clock.after(RETRY_MS, () => {
      this.#stop = null;
      this.attach();
    });
  }

  async #publish({ out, number }: Arrived): Promise<void> {
    const { execution, from, to, events, plan, input } = out;
    if (events !== null) return this.#send({ execution, plan, input, number }, events, to);
    const { store } = this.#options;
    for (let next = from; next <= to; ) {
      const entries = await store.readJournal({ execution, from: next, to, rowsMax: ROWS, charsMax: CHARS });
      const first = next;
      const found = entries.flatMap(decodeReadable).filter(({ seq }) => seq >= first && seq <= to);
      // Events in a damaged row cannot be published. Lists show the execution as damaged.
      if (found.length === 0) return;
      next = (found.at(-1) as Recorded).seq + 1;
      await this.#send({ execution, plan, input, number }, found, next - 1);
    }
  }

  /**
   * Publishes events, and also the receipts among them on the exchange of receipts. After the broker's confirmation, tells the engine up
   * to which event the journal is published.
   */
  async #send(
    { execution, plan, input, number }: Origin,
    events: readonly Recorded[],
    upTo: number,
  ): Promise<void> {
    const { names, engine } = this.#options;
    let open = 1;
    const settle = (): void => {
      open--;
      if (open === 0) engine.outbox.published(execution, upTo);
    };
    const done = (): void => {
      this.#unconfirmed--;
      settle();
      if (this.#unconfirmed === UNCONFIRMED_MAX - 1 || this.#unconfirmed === 0) this.#resume();
    };
    const sendOn = (route: Route, message: Outgoing): void => {
      open++;
      this.#unconfirmed++;
      this.#sendOne(route, message, done);
    };
    for (const recorded of events) {
      const { seq, event } = recorded;
      const route = this.#routes.get(event.kind);
      // For almost all events it is known at once whether they have to be published.
      if (route.isUndecided(number)) await route.decided(number);
      if (route.isHeard(number)) sendOn(route, eventMessage(names, execution, recorded));
      if (event.kind === "command.receipted") {
        const topics = this.#routes.get(topicsOf(plan, event));
        if (topics.isUndecided(number)) await topics.decided(number);
        const receipt = topics.isHeard(number)
          ? receiptMessage(names, { execution, seq, plan, input }, event)
          : null;
        if (receipt !== null) sendOn(topics, receipt);
      }
      if (event.kind === "finished")
        this.#publishEnd(execution, event.status, `${encodeName(execution)}/${seq}`);
    }
    settle();
  }

  #sendOne(route: Route, message: Outgoing, done: () => void): void {
    const { id } = message;
    const onRouted = route.sent(this.#arrived);
    // An execution that was loaded again hands out its unconfirmed events again. The confirmation of an event calls the callbacks of all
    // its copies.
    const before = this.#callbacks.get(id);
    this.#callbacks.set(id, (isRouted) => {
      before?.(isRouted);
      onRouted(isRouted);
      done();
    });
    this.#options.publisher.publish({
      ...message,
      mandatory: true,
      done: (isRouted) => {
        const confirmed = this.#callbacks.get(id);
        this.#callbacks.delete(id);
        confirmed?.(isRouted);
      },
    });
  }

  #publishEnd(execution: string, status: string, id: string): void {
    const { names, publisher } = this.#options;
    publisher.publish({
      key: names.ended(execution),
      id: `${id}~ended`,
      body: Buffer.from(JSON.stringify({ workflow_id: execution, status })),
    });
  }
}

/** The events of a commit, with the number of the commit in the order in which commits arrived at this publisher. */
interface Arrived {
  readonly out: EventsOut;
  readonly number: number;
}

type Origin = Pick<EventsOut, "execution" | "plan" | "input"> & Pick<Arrived, "number">;

function eventMessage(names: BrokerNames, execution: string, recorded: Recorded): Outgoing {
  const shown = publicEvent(execution, recorded, "summary");
  return {
    exchange: names.events,
    key: names.eventKey(shown.kind),
    id: `${encodeName(execution)}/${recorded.seq}`,
    body: Buffer.from(JSON.stringify({ ...shown, workflow_id: execution })),
  };
}

/** The name of a receipt's route, made of the receipt topic and the command topic. The space in it keeps it apart from kinds of events. */
function topicsOf({ commands }: Plan, { step }: CommandReceipted): string {
  const { topic = "", receiptTopic = "" } = commands[step]?.command ?? {};
  return `${receiptTopic} ${topic}`;
}

/** Makes the message for the exchange of receipts, without the attempt's token. Returns null if the plan does not have the command. */
export function receiptMessage(
  names: BrokerNames,
  { execution, seq, plan, input }: Pick<Origin, "execution" | "plan" | "input"> & { readonly seq: number },
  event: CommandReceipted,
): Outgoing | null {
  const command = plan.commands[event.step]?.command;
  const own = command === undefined ? undefined : ownCommands(plan, JSON.parse(input) as Json)[event.step];
  if (command === undefined || own === undefined) return null;
  const { cmd_type, cmd_data, cmd_metadata } = own.cmd;
  const { step, task, attempt, attemptId: attempt_id, result, error, procStatus: proc_status } = event;
  const body = {
    cmd_type,
    cmd_data,
    cmd_metadata: {
      ...cmd_metadata,
      rondo: { workflow_id: execution, step, task, attempt, ...defined({ attempt_id }) },
    },
    ...(result === null ? { proc_err: procErr(error) } : { cmd_result: JSON.parse(result) as Json }),
    proc_status,
    target_topic_name: command.topic,
    receipt_topic_name: command.receiptTopic,
  };
  return {
    exchange: names.receipts,
    key: command.receiptTopic,
    // `CC` is a second routing key: the broker routes the message by the command's topic too.
    headers: { CC: [command.topic] },
    id: `${encodeName(execution)}/${seq}~receipt`,
    body: Buffer.from(JSON.stringify(body)),
  };
}
