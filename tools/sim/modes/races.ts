/**
 * Races of signals with the ends of their executions: a debounce takes an item, sleeps for some milliseconds, and ends unless
 * another item is kept. Items come at such times that most of them meet an end. Each item goes to the open execution of its
 * name, or starts the next one, while processes crash and answers are lost. At the end every item was taken exactly once.
 */
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import type { Fault } from "../faults.ts";
import { must } from "../trace.ts";
import { World } from "../world.ts";

/** Items of one run. */
const ITEMS = 200;
const SIGNAL = "item";
/** The names under which executions are started. */
const NAMES = ["a", "b", "c"];
/** The longest time between two items. */
const GAP_MS = 60;
/** The share of items that are sent twice, and how much later: at once, soon, or long after. */
const REPEATED = 0.3;
const REPEATS_MS = [5, 200, 4_000];
const SLEEP_MS = 7;
const HEAL_AT_MS = 8_000;
const NODES = 3;
const FAULTS: readonly Fault[] = [
  "crash",
  "lost-commits",
  "failed-commits",
  "lost-replies",
  "repeated-messages",
  "clean-restarts",
  "pauses-and-cuts",
];

/** The world of a seed's races: one node for an odd seed, else a cluster. */
export function racesWorld(seed: number, show: ((line: string) => void) | null): World {
  const definition = parseDefinition({
    rondo: 1,
    name: "debounce",
    phases: [
      { name: "collect", handlers: { collect: { waitFor: SIGNAL } }, maxVisits: 10_000 },
      { name: "send", handlers: { send: { sleep: SLEEP_MS } }, maxVisits: 10_000 },
    ],
    unread: { [SIGNAL]: "collect" },
  });
  const nodes = seed % 2 === 0 ? NODES : 0;
  const plan = compilePlan(unwrap(definition));
  const races = {
    plan,
    lastsMs: HEAL_AT_MS,
    begin: (begun: World) => sendItems(begun, plan),
    check: checkItems,
  };
  return new World({ seed, executions: 0, nodes, faults: new Set(FAULTS), show, races });
}

/** Sends the items, from now on. */
function sendItems(world: World, plan: Plan): void {
  const random = world.randomOf("items");
  let at = 0;
  for (let i = 0; i < ITEMS; i++) {
    at += random.below(GAP_MS);
    const item = `i${i}`;
    const name = random.pick(NAMES);
    const send = () => world.client.signalWithStart(name, { plan, signal: SIGNAL, item });
    world.timeline.after(at, send);
    // A client that got no answer repeats its request, at another node, at once or after many further executions of the name.
    if (random.chance(REPEATED)) world.timeline.after(at + random.below(random.pick(REPEATS_MS)), send);
  }
}

/** Checks that every item was taken by exactly one execution, and that every execution is done. */
function checkItems(world: World): void {
  const taken = new Map<string, string>();
  for (const { id, status } of world.ledger.models) {
    must(status === "done", `${id}: a debounce is done at the end, and this one is ${status}`);
    for (const event of world.eventsOf(id)) {
      if (event.kind !== "tasks.settled") continue;
      event.payloads.forEach((payload, i) => {
        if (event.reasons[i] !== "signalled") return;
        const { id: item } = JSON.parse(payload) as { id: string };
        must(!taken.has(item), `${item} is taken by ${taken.get(item)} and by ${id}`);
        taken.set(item, id);
      });
    }
  }
  const items = Array.from({ length: ITEMS }, (_, i) => `i${i}`);
  const lost = items.filter((item) => !taken.has(item));
  must(lost.length === 0, `${lost.join()}: sent, and taken by no execution`);
}
