/**
 * Versions of a workflow: executions of two versions run while code of the versions comes and goes with its workers, and users
 * move executions from one version to the other, and to a definition that does not fit. At the end every execution has ended, each
 * has the phases of the definition that it had last, and none has the one that does not fit.
 */
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import type { Fault } from "../faults.ts";
import { must } from "../trace.ts";
import { World } from "../world.ts";

const EXECUTIONS = 8;
const MOVES = 40;
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
  "failing-tasks",
  "older-nodes",
];

/** A version of the workflow: `check` is in the second one only. */
function planOf(version: string, phases: readonly string[]): Plan {
  const handler = (name: string) => {
    const code = { use: `moved.${name}`, version: `^${version}`, retry: { attempts: 20, crashes: 50 } };
    return name === "work" ? { ...code, enumerate: { use: `moved.${name}` } } : code;
  };
  return compilePlan(
    unwrap(
      parseDefinition({
        rondo: 1,
        name: "moved",
        version,
        phases: phases.map((name) => ({ name, handlers: { [name]: handler(name) } })),
      }),
    ),
  );
}

/** The world of a seed's moves: one node for an odd seed, else a cluster. */
export function versionsWorld(seed: number, show: ((line: string) => void) | null): World {
  const first = planOf("1.0.0", ["work", "ship"]);
  const second = planOf("2.0.0", ["work", "check", "ship"]);
  const other = planOf("2.0.0", ["other"]);
  const races = {
    plan: first,
    others: [second, other],
    lastsMs: HEAL_AT_MS,
    begin: (begun: World) => begin(begun, { first, second, other }),
    check: (ended: World) => check(ended, other),
  };
  const nodes = seed % 2 === 0 ? NODES : 0;
  return new World({ seed, executions: 0, nodes, faults: new Set(FAULTS), show, races });
}

function begin(
  world: World,
  plans: { readonly first: Plan; readonly second: Plan; readonly other: Plan },
): void {
  const random = world.randomOf("versions");
  const { first, second, other } = plans;
  for (let i = 0; i < EXECUTIONS; i++) {
    const [id, plan] = [`v${i}`, random.pick([first, first, second])];
    world.begun(id, plan);
    world.timeline.after(random.below(2_000), () => world.client.start(id, plan, {}));
  }
  for (let i = 0; i < MOVES; i++) {
    const [id, to] = [`v${random.below(EXECUTIONS)}`, random.pick([first, second, second, other])];
    world.timeline.after(random.below(HEAL_AT_MS), () => world.client.move(id, to));
    if (random.chance(0.2))
      world.timeline.after(random.below(HEAL_AT_MS), () =>
        world.client.control(id, random.pick(["pause", "resume"] as const)),
      );
  }
}

/** Checks that each execution has the phases of its last definition. */
function check(world: World, other: Plan): void {
  let moves = 0;
  for (const { id, plan, status } of world.ledger.models) {
    const visited = new Set<string>();
    for (const event of world.eventsOf(id)) {
      if (event.kind === "phase.started") visited.add(event.phase);
      if (event.kind !== "moved") continue;
      moves++;
      must(event.hash !== other.hash, `${id}: is moved to a definition that does not fit`);
    }
    must(status === "done" || status === "failed", `${id}: ends as ${status}`);
    if (status !== "done") continue;
    // An execution that was moved after "work" goes on with the phase that was to start.
    for (const { name } of plan.definition.phases)
      must(visited.has(name) || name === "check", `${id}: is done without its phase ${name}`);
  }
  world.trace.note(world.timeline.now, `moves ${moves}`);
}
