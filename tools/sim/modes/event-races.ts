/**
 * Events and their triggers: events of several kinds come at random times, many of them twice, while processes crash and answers
 * are lost. Each kind has one trigger: plain, debounce, batch, throttle, or one of the singletons. At the end every event had
 * exactly the effect that its trigger promises, as the journals of the gates and of the started executions show.
 */
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import type { Event } from "../../../src/kernel/event.ts";
import type { Relayed, StartMessage } from "../../../src/kernel/message.ts";
import { gateMessage } from "../../../src/kernel/relay/gate.ts";
import { GATE_WORKFLOW, type GatePolicy, RELAY_DEFINITIONS } from "../../../src/kernel/relay/relay.ts";
import { eventExecution, gateId, startedBy } from "../../../src/kernel/relay/relay-ids.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import type { Fault } from "../faults.ts";
import { must } from "../trace.ts";
import { World } from "../world.ts";

const EVENTS = 150;
const KEYS = ["a", "b"];
const GAP_MS = 60;
const HEAL_AT_MS = 8_000;
const NODES = 3;
const SIGNAL = "item";
const CANCELLED = "cancelled";
const FAULTS: readonly Fault[] = [
  "crash",
  "lost-commits",
  "failed-commits",
  "lost-replies",
  "repeated-messages",
  "clean-restarts",
  "pauses-and-cuts",
];

const QUIET_MS = 120;
const THROTTLE = { limit: 2, per: 200 };
const BATCH = { max: 4, wait: 150 };

/** The rules of each kind of event. The event `cancelled` cancels what `tracked` started. */
const KINDS: Readonly<Record<string, Partial<GatePolicy> | null>> = {
  plain: null,
  debounced: { debounce: { quiet: QUIET_MS, max: 600 } },
  batched: { batch: BATCH },
  throttled: { throttle: THROTTLE },
  skipping: { singleton: "skip", tracks: true },
  replacing: { singleton: "cancel", tracks: true },
  joining: { singleton: "signal", signal: SIGNAL, tracks: true },
  tracked: { tracks: true },
};

interface Sent {
  readonly kind: string;
  readonly key: string;
  readonly id: string;
}

/** The world of a seed's events: one node for an odd seed, else a cluster. */
export function eventsWorld(seed: number, show: ((line: string) => void) | null): World {
  const plan = compilePlan(
    unwrap(
      parseDefinition({
        rondo: 1,
        name: "target",
        phases: [
          { name: "work", handlers: { work: { sleep: 40 } } },
          { name: "end", handlers: {}, next: "rest" },
          { name: "collect", handlers: { collect: { waitFor: SIGNAL } }, maxVisits: 10_000 },
          { name: "rest", handlers: { rest: { sleep: 5 } }, final: true, maxVisits: 10_000 },
        ],
        unread: { [SIGNAL]: "collect" },
      }),
    ),
  );
  const others = RELAY_DEFINITIONS.map(compilePlan);
  const sent: Sent[] = [];
  const races = {
    plan,
    others,
    lastsMs: HEAL_AT_MS,
    begin: (begun: World) => sendAll(begun, { plan, event: others[0] as Plan, sent }),
    check: (ended: World) => check(ended, sent),
  };
  const nodes = seed % 2 === 0 ? NODES : 0;
  return new World({ seed, executions: 0, nodes, faults: new Set(FAULTS), show, races });
}

function sendAll(world: World, { plan, event, sent }: { plan: Plan; event: Plan; sent: Sent[] }): void {
  const random = world.randomOf("events");
  const kinds = [...Object.keys(KINDS), CANCELLED];
  let at = 0;
  for (let i = 0; i < EVENTS; i++) {
    at += random.below(GAP_MS);
    const one = { kind: random.pick(kinds), key: random.pick(KEYS), id: eventExecution("default", `e${i}`) };
    sent.push(one);
    const send = () => world.client.event(startOf(one, event, relaysOf(one, plan)), event);
    world.timeline.after(at, send);
    // A repeated event may come much later, and may have other messages, since triggers change.
    if (random.chance(0.2))
      world.timeline.after(at + random.below(3_000), () =>
        world.client.event(startOf(one, event, []), event, send),
      );
  }
}

/** The message of an event to each of its targets. */
function relaysOf({ kind, key, id }: Sent, plan: Plan): Relayed[] {
  const isCancel = kind === CANCELLED;
  const trigger = isCancel ? "tracked" : kind;
  const rules = KINDS[trigger];
  const { hash } = plan;
  const policy: GatePolicy = { workflow: "target", hash, project: "default", trigger, ...rules };
  const data = JSON.stringify(id);
  if (rules === null) {
    const execution = startedBy(id, policy);
    const message: StartMessage = {
      ...{ kind: "start", execution, workflow: "target", hash, project: "default", input: data, tags: {} },
    };
    return [{ to: execution, message }];
  }
  const gate = gateId({ project: "default", workflow: "target", event: trigger, key });
  const entry = { event: id, data, policy, ...(isCancel ? { cancels: true as const } : {}) };
  return [{ to: gate, message: gateMessage(gate, entry) }];
}

function startOf({ id, kind }: Sent, { hash }: Plan, messages: readonly Relayed[]): StartMessage {
  return {
    ...{ kind: "start", execution: id, workflow: "rondo-event", hash, project: "default", tags: {} },
    input: JSON.stringify({ name: kind }),
    relays: { messages, output: "null" },
  };
}

/** Checks that each event had exactly the effect of its trigger. */
function check(world: World, sent: readonly Sent[]): void {
  const inputs = new Map<string, string[]>();
  const add = (id: string, execution: string) => inputs.set(id, [...(inputs.get(id) ?? []), execution]);
  for (const { id, plan } of world.ledger.models) {
    if (plan.definition.name !== "target") continue;
    for (const event of world.eventsOf(id)) {
      if (event.kind === "created")
        for (const one of [JSON.parse(event.input) as string | string[]].flat()) add(one, id);
      if (event.kind === "signalled") add(JSON.parse(event.data) as string, id);
    }
  }
  for (const { id, kind } of sent) {
    const found = inputs.get(id) ?? [];
    must(found.length <= 1, `${kind} ${id}: is taken by ${found.join(" and by ")}`);
    const always = ["plain", "batched", "throttled", "replacing", "joining"];
    must(found.length === 1 || !always.includes(kind), `${kind} ${id}: is taken by no execution`);
  }
  const gates = new Map<string, readonly { readonly at: number; readonly event: Event }[]>();
  for (const { id, plan } of world.ledger.models)
    if (plan.definition.name === GATE_WORKFLOW) gates.set(id, [...world.recordedOf(id)]);
  for (const [kind, rules] of Object.entries(KINDS))
    for (const key of KEYS) {
      if (rules === null) continue;
      const gate = gates.get(gateId({ project: "default", workflow: "target", event: kind, key })) ?? [];
      const came = sent.filter((one) => one.kind === kind && one.key === key).map(({ id }) => id);
      checkGate(`${kind} ${key}`, gate, { came, taken: inputs, rules });
    }
}

interface Came {
  readonly came: readonly string[];
  readonly taken: ReadonlyMap<string, readonly string[]>;
  readonly rules: Partial<GatePolicy>;
}

/** Checks the journal of a gate: it took each event once, and passed or dropped what it held at the right times. */
function checkGate(
  name: string,
  journal: readonly { readonly at: number; readonly event: Event }[],
  { came, taken, rules }: Came,
): void {
  const took = journal.flatMap(({ event }) => (event.kind === "gate.taken" ? [event.event] : []));
  const { debounce, throttle, batch, singleton } = rules;
  must(
    came.every((id) => took.includes(id)) && took.every((id) => came.includes(id)),
    `${name}: its gate took ${took.join()}, and ${came.join()} were sent`,
  );
  // An event comes back if it was a signal to an execution that had ended.
  must(singleton === "signal" || took.length === came.length, `${name}: its gate took an event twice`);
  let held: { id: string; at: number }[] = [];
  let since = 0;
  const open = new Set<string>();
  const starts: number[] = [];
  for (const { at, event } of journal) {
    if (event.kind === "gate.taken") {
      if (held.length === 0) since = at;
      held = batch === undefined ? [{ id: event.event, at }] : [...held, { id: event.event, at }];
    } else if (event.kind === "gate.freed")
      must(open.delete(event.execution), `${name}: ${event.execution} is freed, and was not open`);
    else if (event.kind === "gate.passed" || event.kind === "gate.dropped") {
      must(
        event.events.join() === held.map(({ id }) => id).join(),
        `${name}: passes ${event.events.join()}, and holds ${held.map(({ id }) => id).join()}`,
      );
      const last = held.at(-1) ?? { id: "", at };
      held = [];
      if (event.kind === "gate.dropped") {
        if (event.events.length === 0) continue;
        must(
          taken.get(last.id) === undefined,
          `${name}: ${last.id} is dropped, and has started an execution`,
        );
        continue;
      }
      must(
        taken.get(last.id)?.[0] !== undefined || singleton === "signal",
        `${name}: ${last.id} is passed and lost`,
      );
      if (debounce !== undefined)
        must(
          at >= Math.min(last.at + debounce.quiet, since + (debounce.max ?? 0)),
          `${name}: an event is passed ${at - last.at} ms after the last one`,
        );
      if (batch !== undefined)
        must(
          event.events.length === batch.max || at >= since + batch.wait,
          `${name}: a batch is passed early`,
        );
      if (event.as === "signal") continue;
      must(
        open.size === 0 || singleton !== "skip",
        `${name}: starts ${event.execution} beside ${[...open].join()}`,
      );
      must(
        open.size === 0 || singleton !== "signal",
        `${name}: starts another though ${[...open].join()} is open`,
      );
      if (rules.tracks === true) open.add(event.execution);
      starts.push(event.startAt ?? at);
    }
  }
  must(held.length === 0 && open.size === 0, `${name}: its gate ends with something in it`);
  if (throttle !== undefined)
    starts.forEach((at, i) => {
      const before = starts[i - throttle.limit];
      must(
        before === undefined || at >= before + throttle.per,
        `${name}: more than ${throttle.limit} starts at a time`,
      );
    });
}
