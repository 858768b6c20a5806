/**
 * Sends events. Sending an event is one commit. It creates an execution whose id is derived from the event's id, and stores a message to
 * each execution or gate that a trigger names (kernel/relay). So a repeated event changes nothing, and a crash loses nothing.
 */
import { type EnginePort, startExecution } from "../engine/engine-port.ts";
import type { CancelDefinition, TriggerDefinition } from "../kernel/definition/definition.ts";
import { DEFAULT_PROJECT } from "../kernel/definition/definition.ts";
import { composedName, whyNoExecutionId, writtenName } from "../kernel/definition/names.ts";
import { compilePlan, type Plan } from "../kernel/definition/plan.ts";
import { nameOf, pointedAt } from "../kernel/definition/task-name.ts";
import type { Relayed } from "../kernel/message.ts";
import { gateMessage } from "../kernel/relay/gate.ts";
import { type GatePolicy, RELAY_DEFINITIONS, TARGETS_MAX } from "../kernel/relay/relay.ts";
import { eventExecution, gateId, startedBy } from "../kernel/relay/relay-ids.ts";
import { matchesPayload } from "../kernel/tasks/payload-match.ts";
import type { EventTarget, RefusedTrigger, SentEvent } from "../protocol/sent-event.ts";
import type { Clock } from "../std/clock.ts";
import { anything, decode, object, optional, orElse, text } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { newMessageId } from "../std/id.ts";
import { byteLength, toStoredText } from "../std/json.ts";
import type { Random } from "../std/random.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { SharedReads } from "../std/shared-reads.ts";
import type { DocumentStore } from "../store/store.ts";
import { EventLog } from "./event-log.ts";
import { workflowsOn } from "./trigger-index.ts";

const EVENT_BYTES_MAX = 262_144;
/** The most bytes of all messages of one event. */
const MESSAGES_BYTES_MAX = 16_777_216;

const given = object(
  {
    name: composedName("the name of an event"),
    data: anything,
    id: optional(composedName("the id of an event")),
    project: orElse(writtenName("a project's name"), DEFAULT_PROJECT),
    source: optional(text({ min: 1, max: 1_000 })),
  },
  { what: "an event" },
);

/** The facts about a workflow that triggers need. */
export interface TriggeredWorkflow {
  readonly plan: Plan;
  /** Returns the input in its stored form, or a rejection if the workflow refuses it. */
  readonly check: (input: unknown) => Promise<string | Rejection>;
}

export interface SendParts {
  readonly engine: EnginePort;
  readonly store: Pick<DocumentStore, "listDocuments" | "putDocuments" | "putDefinition">;
  readonly clock: Pick<Clock, "now">;
  readonly random: Random;
  /** Reads the newest definition of a workflow. Returns a rejection if it cannot be used; null if there is none. */
  readonly newest: (workflow: string) => Promise<TriggeredWorkflow | Rejection | null>;
}

/**
 * Sends events. Events that are sent at the same time share the reads of triggers and definitions and the writes to the log, so an
 * event costs few statements beside the commit of its execution.
 */
export class EventSender {
  readonly #parts: SendParts;
  readonly #log: EventLog;
  /** Any node may store a newer definition, so each event reads which workflows have triggers for it. */
  readonly #triggers: SharedReads<readonly string[]>;
  readonly #newest: SharedReads<TriggeredWorkflow | Rejection | null>;
  #plan: Promise<Plan> | null = null;

  constructor(parts: SendParts) {
    this.#parts = parts;
    this.#log = new EventLog(parts.store);
    this.#triggers = new SharedReads((event) => workflowsOn(parts.store, event));
    this.#newest = new SharedReads(parts.newest);
  }

  /** Sends an event. Resolves when the event is stored. */
  async send(event: unknown): Promise<SentEvent | Rejection> {
    const checked = decode(given, event, { whole: "event" });
    if (isRejection(checked)) return checked;
    const data = toStoredText(checked.data, { bytesMax: EVENT_BYTES_MAX, what: "data" });
    if (isRejection(data)) return data;
    const { clock, random, engine } = this.#parts;
    const { name, project, source } = checked;
    const id = checked.id ?? newMessageId(clock.now(), random);
    const execution = eventExecution(project, source === undefined ? id : `${source}\n${id}`);
    if (checked.id !== undefined) {
      const first = await firstAnswer(engine, execution);
      if (first !== null) return first;
    }
    const found = await this.#targetsOf({ name, data, project, execution });
    if (isRejection(found)) return found;
    const { messages, targets, refused } = found;
    const answer = { id, targets, refused };
    const plan = await this.#eventPlan();
    const input = JSON.stringify({ name, id, ...defined({ source }), data: JSON.parse(data) as unknown });
    await this.#log.keep({ at: clock.now(), execution, name, id, project, isMatched: messages.length > 0 });
    const start = startExecution(this.#parts, plan, input, {
      id: execution,
      project,
      tags: { event: name },
      relays: { messages, output: JSON.stringify(answer) },
    });
    const reply = await start.send();
    if (isRejection(reply.answer)) return reply.answer;
    if (!reply.existed) return { ...answer, repeated: false };
    return (await firstAnswer(engine, execution)) ?? { ...answer, repeated: true };
  }

  /** Finds the triggers that match an event, and makes their messages. */
  async #targetsOf(event: Sending): Promise<Found | Rejection> {
    const found: Found = { messages: [], targets: [], refused: [] };
    const data = JSON.parse(event.data) as unknown;
    for (const workflow of await this.#triggers.read(event.name)) {
      const known = await this.#newest.read(workflow);
      if (known === null) continue;
      if (isRejection(known)) {
        found.refused.push({ workflow, reason: known.message });
        continue;
      }
      for (const trigger of known.plan.definition.on ?? []) {
        if (trigger.event === event.name) await addTrigger(found, { event, data, trigger, known });
        for (const cancel of trigger.cancelOn ?? [])
          if (cancel.event === event.name) addCancel(found, { event, data, trigger, known, cancel });
      }
    }
    return tooLarge(found, event) ?? found;
  }

  /**
   * The plan of the executions that represent events. The definitions of relays are stored before the first event, because other nodes
   * read them.
   */
  #eventPlan(): Promise<Plan> {
    this.#plan ??= this.#storeRelays().catch((thrown: unknown) => {
      this.#plan = null;
      throw thrown;
    });
    return this.#plan;
  }

  async #storeRelays(): Promise<Plan> {
    const plans = RELAY_DEFINITIONS.map((definition) => compilePlan(definition));
    for (const { definition, hash } of plans)
      await this.#parts.store.putDefinition(definition.name, hash, JSON.stringify(definition));
    return plans[0] as Plan;
  }
}

/** Returns the answer to the first event with this id; null if there was none. */
async function firstAnswer(engine: EnginePort, execution: string): Promise<SentEvent | Rejection | null> {
  const first = await engine.inspect(execution);
  if (isRejection(first)) return first.code === "not_found" ? null : first;
  return { ...(first.view.output as unknown as Omit<SentEvent, "repeated">), repeated: true };
}

interface Sending {
  readonly name: string;
  readonly data: string;
  readonly project: string;
  /** Returns the id of the execution that represents the event. */
  readonly execution: string;
}

interface Found {
  readonly messages: Relayed[];
  readonly targets: EventTarget[];
  readonly refused: RefusedTrigger[];
}

/** The rejection of an event that has too many targets, or too much data for them; null if the event can be sent. */
function tooLarge(found: Found, event: Sending): Rejection | null {
  const { length } = found.messages;
  if (length > TARGETS_MAX)
    return reject(
      "too_large",
      `the event "${event.name}" has ${length} targets; at most ${TARGETS_MAX} are allowed`,
      {
        hint: "let the event start one workflow, which starts the others as children",
      },
    );
  if (length * byteLength(event.data) > MESSAGES_BYTES_MAX)
    return reject("too_large", `the data of the event, sent to ${length} targets, is too large in all`, {
      path: "data",
      hint: "store the data elsewhere, and send a reference to it",
    });
  return null;
}

interface Fitting {
  readonly event: Sending;
  /** The data of the event. */
  readonly data: unknown;
  readonly trigger: TriggerDefinition;
  readonly known: TriggeredWorkflow;
}

async function addTrigger(found: Found, fitting: Fitting): Promise<void> {
  const { event, data, trigger, known } = fitting;
  const { match, signal, execution: pointer, batch } = trigger;
  const { name: workflow } = known.plan.definition;
  if (!fits(event.data, match)) return;
  const refuse = (reason: string) => found.refused.push({ workflow, reason });
  if (pointer !== undefined && signal !== undefined) {
    const to = pointedAt(data, pointer);
    if (typeof to !== "string" || whyNoExecutionId(to) !== null)
      return void refuse(`"${pointer}" in the data of the event is not the id of an execution`);
    const id = startedBy(event.execution, { workflow, trigger: trigger.event });
    const { data: payload, project } = event;
    found.messages.push({ to, message: { kind: "signal", id, signal, data: payload, project } });
    found.targets.push({ workflow, execution: to, action: "signal" });
    return;
  }
  const input = await known.check(batch === undefined ? data : [data]);
  if (isRejection(input)) return void refuse(input.message);
  const policy = policyOf(fitting);
  const key = keyOf(data, trigger.key);
  if (key === null)
    return void refuse(`"${trigger.key}" in the data of the event is neither a text nor a number`);
  if (needsGate(trigger)) {
    const gate = gateId({ project: event.project, workflow, event: trigger.event, key });
    const entry = { event: event.execution, data: event.data, policy };
    found.messages.push({ to: gate, message: gateMessage(gate, entry) });
    found.targets.push({ workflow, action: "held" });
    return;
  }
  const execution = startedBy(event.execution, policy);
  const { hash } = known.plan;
  found.messages.push({
    to: execution,
    message: {
      kind: "start",
      execution,
      workflow,
      hash,
      project: event.project,
      input,
      tags: { event: event.name },
    },
  });
  found.targets.push({ workflow, execution, action: "start" });
}

function addCancel(
  found: Found,
  { cancel, ...fitting }: Fitting & { readonly cancel: CancelDefinition },
): void {
  const { event, data, trigger, known } = fitting;
  const { name: workflow } = known.plan.definition;
  if (!fits(event.data, cancel.match)) return;
  const pointer = cancel.key ?? trigger.key;
  const key = keyOf(data, pointer);
  if (key === null)
    return void found.refused.push({
      workflow,
      reason: `"${pointer}" in the data of the event is neither a text nor a number`,
    });
  const gate = gateId({ project: event.project, workflow, event: trigger.event, key });
  const entry = { event: event.execution, data: "null", policy: policyOf(fitting), cancels: true as const };
  found.messages.push({ to: gate, message: gateMessage(gate, entry) });
  found.targets.push({ workflow, action: "cancel" });
}

/** Returns the key of an event for a trigger; null if the data has none. */
function keyOf(data: unknown, pointer: string | undefined): string | null {
  return pointer === undefined ? "" : nameOf(pointedAt(data, pointer));
}

function fits(data: string, match: unknown): boolean {
  return match === undefined || matchesPayload(data, JSON.stringify(match));
}

function needsGate({ debounce, batch, throttle, singleton, cancelOn }: TriggerDefinition): boolean {
  return [debounce, batch, throttle, singleton, cancelOn].some((option) => option !== undefined);
}

function policyOf({ event, trigger, known: { plan } }: Fitting): GatePolicy {
  const { debounce, throttle, batch, singleton, signal, cancelOn } = trigger;
  const tracks = singleton !== undefined || cancelOn !== undefined ? true : undefined;
  return {
    workflow: plan.definition.name,
    hash: plan.hash,
    project: event.project,
    trigger: trigger.event,
    ...defined({ debounce, throttle, batch, singleton, signal, tracks }),
  };
}
