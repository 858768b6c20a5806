/**
 * Entities: ids whose executions continue as others. The code of an execution takes some items and continues with them; the last
 * item ends the entity. Users send the items to the bare id, one after the other, or as events. Meanwhile processes crash,
 * executions are paused, cancelled and retried, old ones are purged, and a newer definition is stored. At the end every item was
 * taken once, in its order, and the first execution of each id names the newest.
 */
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import { successorId } from "../../../src/kernel/definition/successor-id.ts";
import type { StartMessage } from "../../../src/kernel/message.ts";
import { EVENT_WORKFLOW, RELAY_DEFINITIONS } from "../../../src/kernel/relay/relay.ts";
import { eventExecution } from "../../../src/kernel/relay/relay-ids.ts";
import type { SeededRandom } from "../../../src/std/random.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import type { Model } from "../check/model.ts";
import type { Fault } from "../faults.ts";
import { must } from "../trace.ts";
import { ENTITY, ITEM_SIGNALS, LAST } from "../workload/program.ts";
import { World } from "../world.ts";

/** The entities whose items are sent to the id, one after the other, and the one whose items are events. */
const SIGNALLED = ["a", "b"];
const BY_EVENTS = "c";
const ITEMS = 30;
/** The times between an answer and the next item. */
const GAPS_MS = [0, 0, 0, 5, 100, 400];
/** The share of items that are sent again, and how much later. */
const REPEATED = 0.3;
const REPEATS_MS = [5, 300, 4_000];
/** How often a user acts on an entity, and how often ended ones are retried. */
const ACTS_MS = 700;
const HEAL_AT_MS = 8_000;
const NODES = 3;
const FAULTS: readonly Fault[] = [
  "crash",
  "lost-commits",
  "failed-commits",
  "lost-replies",
  "lost-messages",
  "repeated-messages",
  "clean-restarts",
  "pauses-and-cuts",
  "dead-workers",
  "leaving-workers",
  "frozen-workers",
  "purges",
];

/** Whether the executions of a seed clean up before they continue. One that is cancelled in its work could not be retried then. */
const closes = (seed: number): boolean => seed % 4 === 3;

/** A definition of the entity. */
function planOf(attempts: number, isClosing: boolean): Plan {
  const handlers = { live: { use: ENTITY, retry: { attempts, crashes: 50, min: "10ms" } } };
  const live = { name: "live", handlers };
  const close = { name: "close", handlers: { close: { sleep: "300ms" } } };
  const parts = isClosing ? { phases: [live, close], finally: "close" } : { phases: [live] };
  return compilePlan(unwrap(parseDefinition({ rondo: 1, name: "entity", ...parts })));
}

/** The world of a seed's entities: one node for an odd seed, else a cluster. */
export function entitiesWorld(seed: number, show: ((line: string) => void) | null): World {
  const [plan, newer] = [planOf(20, closes(seed)), planOf(21, closes(seed))];
  const relays = RELAY_DEFINITIONS.map(compilePlan);
  const races = {
    plan,
    others: [...relays, newer],
    /** The newer definition is stored while executions continue. */
    later: [newer],
    answersWaits: true,
    /** A cancelled execution is retried. The first one of its id ended later for retention, which deletes the oldest first. */
    keeps: ({ status, chain: { newest } }: Model, { ledger }: World) =>
      status === "cancelled" || ledger.model(newest?.execution ?? "")?.status === "cancelled",
    lastsMs: HEAL_AT_MS,
    begin: (begun: World) => begin(begun, plan, relays[0] as Plan),
    check: (ended: World) => [...SIGNALLED, BY_EVENTS].forEach((name) => check(ended, name)),
  };
  const nodes = seed % 2 === 0 ? NODES : 0;
  return new World({ seed, executions: 0, nodes, faults: new Set(FAULTS), show, races });
}

function itemsOf(name: string): string[] {
  return Array.from({ length: ITEMS }, (_, i) => `${name}${i === ITEMS - 1 ? LAST : i}`);
}

function begin(world: World, plan: Plan, event: Plan): void {
  const random = world.randomOf("entities");
  for (const name of [...SIGNALLED, BY_EVENTS]) {
    world.begun(name, plan);
    world.client.unsent++;
    world.timeline.after(random.below(500), () => world.client.start(name, plan, {}));
  }
  for (const name of SIGNALLED)
    afterStart(world, name, () => {
      sendItems(world, name, random);
      world.client.unsent++;
      act(world, name, random);
    });
  afterStart(world, BY_EVENTS, () => sendEvents(world, random, event));
}

/** Calls when the start of an entity is acknowledged. */
function afterStart(world: World, name: string, call: () => void): void {
  world.timeline.after(100, () =>
    world.client.acknowledged.has(name) ? call() : afterStart(world, name, call),
  );
}

/** Sends each item when the one before is acknowledged. */
function sendItems(world: World, name: string, random: SeededRandom): void {
  const items = itemsOf(name);
  const send = (i: number): void => {
    const item = items[i];
    if (item === undefined) {
      world.client.unsent--;
      return;
    }
    const signal = { signal: random.pick(ITEM_SIGNALS), item };
    world.client.signalNewest(name, signal, { untilApplied: true }, () =>
      world.timeline.after(random.pick(GAPS_MS), () => send(i + 1)),
    );
    // A client that got no answer repeats its request, perhaps after many further executions.
    if (random.chance(REPEATED))
      world.timeline.after(random.below(random.pick(REPEATS_MS)), () =>
        world.client.signalNewest(name, signal, { untilApplied: false }, () => {}),
      );
  };
  send(0);
}

/**
 * Pauses, resumes and cancels the newest execution of an entity, and retries it when it was cancelled. If the executions clean up, they
 * are cancelled meanwhile: the next one begins cancelled.
 */
function act(world: World, name: string, random: SeededRandom): void {
  world.timeline.after(random.below(ACTS_MS), () => {
    const newest = chainOf(world, name).at(-1);
    if (newest?.status === "cancelled") world.client.control(newest.id, "retry");
    else if (newest !== undefined && !newest.ended && world.has("crash"))
      world.client.control(newest.id, random.pick(actsOn(world, newest)));
    // The run waits for the last retry. An execution that continues is done before the next one begins.
    const isLast = newest?.status === "done" && newest.chain.continuing === null;
    if (isLast) world.client.unsent--;
    else act(world, name, random);
  });
}

function actsOn({ behaviour }: World, { cleanup }: Model): ("pause" | "resume" | "cancel")[] {
  const mayCancel = !closes(behaviour.seed) || cleanup.ending !== null;
  return mayCancel ? ["pause", "resume", "resume", "cancel"] : ["pause", "resume", "resume"];
}

/** Sends the items of an entity by events, whose messages are mail to its id. The last one follows when the others were taken. */
function sendEvents(world: World, random: SeededRandom, event: Plan): void {
  const items = itemsOf(BY_EVENTS);
  const last = items.pop() as string;
  const send = (item: string) => world.client.event(eventOf(item, random.pick(ITEM_SIGNALS), event), event);
  for (const item of items) world.timeline.after(random.below(HEAL_AT_MS), () => send(item));
  const end = (): void => {
    world.ledger.sync();
    const isAll = chainOf(world, BY_EVENTS).flatMap(({ chain }) => chain.taken).length === items.length;
    if (!isAll) return world.timeline.after(1_000, end);
    world.client.unsent--;
    send(last);
  };
  world.timeline.after(HEAL_AT_MS, end);
}

function eventOf(item: string, signal: string, { hash }: Plan): StartMessage {
  const message = { kind: "signal", id: item, signal, data: JSON.stringify({ id: item }) } as const;
  return {
    ...{ kind: "start", execution: eventExecution("default", item), workflow: EVENT_WORKFLOW, hash },
    ...{ project: "default", tags: {}, input: JSON.stringify({ name: item }) },
    relays: { messages: [{ to: BY_EVENTS, message }], output: "null" },
  };
}

/** The executions of an entity that have begun, purged ones too. */
function chainOf(world: World, name: string): Model[] {
  const chain: Model[] = [];
  for (let n = 1; ; n++) {
    const model = world.ledger.model(successorId(name, n));
    if (model === undefined) return chain;
    chain.push(model);
  }
}

/** Checks that each execution continues the one before with its input, and that all items were taken once, in their order. */
function check(world: World, name: string): void {
  const chain = chainOf(world, name);
  const [first] = chain;
  const last = chain.at(-1);
  chain.forEach(({ id, ids, status, chain: { continuedAs, place, input } }, i) => {
    const before = chain[i - 1];
    must(status === "done", `${id}: an execution of an entity is done at the end, and this one is ${status}`);
    must(place?.after === before?.id, `${id}: continues ${place?.after}, not ${before?.id}`);
    must(
      before === undefined || input === before.chain.continuing,
      `${id}: begins with ${input}, not with ${before?.chain.continuing}`,
    );
    must(continuedAs === (chain[i + 1]?.id ?? null), `${id}: is continued as ${continuedAs}`);
    const handedOn = before?.chain.nextCancelled ?? null;
    must(handedOn === null || ids.has(handedOn), `${id}: begins with the cancel ${handedOn}`);
  });
  must(chain.length > 5, `${name}: has ${chain.length} executions`);
  must(
    first?.chain.newest?.execution === last?.id && first?.chain.newest?.isOpen === false,
    `${name}: its newest execution is ${last?.id}, which has ended, and it names ${JSON.stringify(first?.chain.newest)}`,
  );
  const taken = chain.flatMap((model) => model.chain.taken);
  const items = itemsOf(name);
  // Events are applied in any order.
  const isRight =
    name === BY_EVENTS ? taken.toSorted().join() === items.toSorted().join() : taken.join() === items.join();
  must(isRight, `${name}: has taken ${taken.join()}`);
}
