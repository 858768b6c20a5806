/** Events in code: typed names of events, and the triggers of workflows. */
import { defined } from "../std/defined.ts";
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import { checkFields, invalid, storedCopy } from "./check.ts";

/** An event to send. */
export interface EventToSend<Data = unknown> {
  /** The name of the event, such as `order/paid`. */
  readonly name: string;
  /** The data of the event. */
  readonly data?: Data;
  /**
   * The id of the event. A second event with the same id changes nothing, as long as the first is remembered: 7 days, or as
   * the setting `eventsKept` says.
   *
   * @default a new id
   */
  readonly id?: string;
  /**
   * The project of the executions that the event starts.
   *
   * @default "default"
   */
  readonly project?: string;
  /**
   * The source of the event. Ids of different sources are different.
   *
   * @default none
   */
  readonly source?: string;
}

/** A kind of event with the type of its data. Call it to make an event. */
export interface EventType<Data> {
  /** Makes an event to send. */
  (data: Data, options?: Omit<EventToSend, "name" | "data">): EventToSend<Data>;
  /** The name of the event. */
  readonly event: string;
  /** This member exists only in the type, never at run time. */
  readonly "~data"?: Data;
}

/**
 * Declares a kind of event, so that senders and triggers agree on its data.
 *
 * @example
 * const orderPaid = event<{ order: string; amount: number }>("order/paid");
 * await rondo.send(orderPaid({ order: "A-17", amount: 20 }, { id: "payment-9" }));
 */
export function event<Data = Json>(name: string): EventType<Data> {
  if (typeof name !== "string" || name === "") throw invalid("event", "needs a name", 'event("order/paid")');
  const make = (data: Data, options: Omit<EventToSend, "name" | "data"> = {}): EventToSend<Data> => ({
    ...options,
    name,
    data,
  });
  return Object.assign(make, { event: name });
}

/** A part of an event's data, with which `match` compares the data of events. */
export type EventMatch<Data> = Json extends Data
  ? Data
  : Data extends object
    ? { readonly [K in keyof Data]?: EventMatch<Data[K]> }
    : Data;

/** An event that cancels executions. */
export interface CancelOn {
  /** The event. */
  readonly event: string | Pick<EventType<never>, "event">;
  /**
   * Values that the data of the event must have.
   *
   * @default any
   */
  readonly match?: Json;
  /**
   * A JSON Pointer to the key in the data of this event.
   *
   * @default the `key` of the trigger
   */
  readonly key?: string;
}

/** Options of a trigger. */
export interface TriggerOptions<Data> {
  /**
   * Values that the data of an event must have. Events with other data do not trigger anything.
   *
   * @default any
   */
  readonly match?: EventMatch<Data>;
  /**
   * A JSON Pointer to the key in the data, such as `/customer`. The other options of the trigger apply to each key separately.
   *
   * @default one key for all events
   */
  readonly key?: string;
  /**
   * Waits until no event has come for the time `quiet`, but at most `max` after the first event. Then it starts one execution
   * with the last event.
   *
   * @default none
   */
  readonly debounce?: { readonly quiet: Duration; readonly max?: Duration };
  /**
   * Starts at most `limit` executions within any period of length `per`; further ones start later.
   *
   * @default none
   */
  readonly throttle?: { readonly limit: number; readonly per: Duration };
  /**
   * Collects events, at most `max` and no longer than `wait`, and starts one execution with the list of their data.
   *
   * @default none
   */
  readonly batch?: { readonly max: number; readonly wait: Duration };
  /**
   * What happens to an event while an execution of its key is open: `skip` drops the event, `cancel` cancels the execution and
   * starts another, `signal` sends the event to the execution as the signal `signal`.
   *
   * @default none: executions run side by side
   */
  readonly singleton?: "skip" | "cancel" | "signal";
  /**
   * The name of the signal that the trigger sends. It belongs to `singleton: "signal"` and to `execution`.
   *
   * @default none
   */
  readonly signal?: string;
  /**
   * A JSON Pointer to the id of the execution that gets the signal. A trigger with this option starts no execution.
   *
   * @default none
   */
  readonly execution?: string;
  /**
   * Events that cancel the open executions of their key.
   *
   * @default none
   */
  readonly cancelOn?: CancelOn | readonly CancelOn[];
}

/** A trigger of a workflow. `Input` is the input of the executions that it starts. */
export interface Trigger<Input = unknown> {
  /** The trigger as data. */
  readonly data: TriggerData;
  /** This member exists only in the type, never at run time. */
  readonly "~input"?: Input;
}

/** A trigger as data, in the form of a definition file. */
export type TriggerData = { readonly event: string } & Readonly<Record<string, Json>>;

const OPTIONS = [
  "match",
  "key",
  "debounce",
  "throttle",
  "batch",
  "singleton",
  "signal",
  "execution",
  "cancelOn",
] as const satisfies readonly (keyof TriggerOptions<unknown>)[];

/**
 * Makes a trigger that starts nothing: the event is a signal to the execution whose id its data has. So the data need not be an input.
 *
 * @example flow("order", run, { input: Order, on: [on(orderPlaced), on(orderPaid, { signal: "paid", execution: "/order" })] })
 */
export function on<Data = Json>(
  event: EventType<Data> | string,
  options: TriggerOptions<Data> & { readonly signal: string; readonly execution: string },
): Trigger<never>;
/**
 * Makes a trigger that collects events: the input is the list of their data.
 *
 * @example workflow<Row[]>({ name: "load", on: on(rowAdded, { batch: { max: 100, wait: "5s" } }) })
 */
export function on<Data>(
  event: EventType<Data>,
  options: TriggerOptions<Data> & { readonly batch: { readonly max: number; readonly wait: Duration } },
): Trigger<Data[]>;
/**
 * Makes a trigger: the event starts executions of the workflow, with its data as their input.
 *
 * @example workflow<{ order: string }>({ name: "ship", on: on(orderPaid, { key: "/order", debounce: { quiet: "5s" } }) })
 */
export function on<Data>(event: EventType<Data>, options?: TriggerOptions<Data>): Trigger<Data>;
/**
 * Makes a trigger from the name of an event, which has no type for its data. It fits every workflow; the schema of the input checks the data.
 *
 * @example workflow<{ order: string }>({ name: "ship", on: on("order/paid") })
 */
export function on(name: string, options?: TriggerOptions<Json>): Trigger<never>;
/**
 * Makes a trigger from the name of an event and the type of its data.
 *
 * @example workflow<{ order: string }>({ name: "ship", on: on<{ order: string }>("order/paid") })
 */
export function on<Data>(name: string, options?: TriggerOptions<Data>): Trigger<Data>;
export function on(event: { readonly event: string } | string, options: object = {}): Trigger<never> {
  checkFields(options, "on", OPTIONS);
  const { cancelOn, ...rest } = options as TriggerOptions<unknown>;
  const cancels = cancelOn === undefined ? undefined : [cancelOn].flat().map(cancelData);
  const data = { event: nameOf(event), ...defined({ ...rest, cancelOn: cancels }) };
  return { data: storedCopy(data, "on") as unknown as TriggerData };
}

function cancelData({ event, ...rest }: CancelOn): object {
  return { event: nameOf(event), ...rest };
}

function nameOf(event: string | { readonly event: string }): string {
  return typeof event === "string" ? event : event.event;
}

/** Checks the triggers that are given to a workflow, and returns them as data. */
export function triggersOf(
  given: Trigger | readonly Trigger[] | undefined,
): readonly TriggerData[] | undefined {
  if (given === undefined) return undefined;
  return [given].flat().map((trigger) => {
    if (typeof (trigger as Partial<Trigger> | null)?.data?.event !== "string")
      throw invalid("on", "must be made by on()", 'workflow({ name, on: on("order/paid") })');
    return trigger.data;
  });
}
