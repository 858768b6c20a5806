/**
 * Random workflows: small definitions that together reach every rule of the kernel. Roots may name child workflows, which may
 * name later ones, at most three levels deep.
 */
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../../src/kernel/definition/plan.ts";
import { assert } from "../../../src/std/assert.ts";
import type { SeededRandom } from "../../../src/std/random.ts";
import { isRejection } from "../../../src/std/rejection.ts";
import { growing } from "./growth.ts";
import { KID, MAPPED, SIGNALS } from "./program.ts";
import { addReferences, randomCommand } from "./random-command.ts";
import { randomEndings } from "./random-endings.ts";
import { randomHandler, randomRates } from "./random-handler.ts";

export interface Grammar {
  readonly roots: readonly Plan[];
  /** Workflows that only parents start. */
  readonly children: readonly Plan[];
  /** Another definition under the name of a child, to be stored later. */
  readonly newer: Plan | null;
}

/** All workflows of a run. */
export function randomGrammar(
  random: SeededRandom,
  { endings: hasEndings = false, rates: hasRates = false }: { endings?: boolean; rates?: boolean } = {},
): Grammar {
  // Drawn from a child generator, so that runs without commands do not change.
  const hasCommands = random.child("commands").chance(0.35);
  // Drawn from a child generator too.
  const grows = random.child("growth").chance(0.3);
  const asked = { hasCommands, hasEndings, hasRates, grows };
  const depth = random.chance(0.6) ? random.between(1, 3) : 0;
  const names = Array.from({ length: depth }, (_, i) => `k${i}`);
  const children = names.map((name, i) =>
    randomPlan(random, {
      name,
      prefix: name,
      children: names.slice(i + 1, i + 2),
      ...asked,
    }),
  );
  const roots = Array.from({ length: random.between(1, 3) }, (_, i) =>
    randomPlan(random, { name: `w${i}`, prefix: `w${i}`, children: names, ...asked }),
  );
  const newer =
    depth > 0 && random.chance(0.3)
      ? randomPlan(random, { name: "k0", prefix: "k0b", children: [], ...asked })
      : null;
  return { roots, children, newer };
}

/** The workflow that the code of tasks runs. */
export function kidPlan(): Plan {
  const phases = [
    { name: "p0", handlers: { h0: { use: `${KID}.p0.h0`, retry: { attempts: 2, min: "10ms" } } } },
    { name: "p1", handlers: { h0: { use: `${KID}.p1.h0`, retry: { attempts: 2, min: "10ms" } } } },
  ];
  const parsed = parseDefinition({ rondo: 1, name: KID, phases, returns: { use: `${KID}.returns` } });
  assert(!isRejection(parsed), "the workflow that code runs is valid");
  return compilePlan(parsed);
}

/** The workflow that runs the items of maps. */
export function mappedPlan(): Plan {
  const use = `${MAPPED}.items`;
  const handlers = { items: { use, enumerate: { use }, retry: { attempts: 2, min: "10ms" }, tolerate: 1 } };
  const phases = [{ name: "items", handlers }];
  const parsed = parseDefinition({ rondo: 1, name: MAPPED, phases, returns: { use: `${MAPPED}.returns` } });
  assert(!isRejection(parsed), "the workflow that runs the items of maps is valid");
  return compilePlan(parsed);
}

interface Asked {
  readonly name: string;
  /** The prefix of the names of code and phases. */
  readonly prefix: string;
  /** The workflows that handlers may name. */
  readonly children: readonly string[];
  readonly hasCommands: boolean;
  /** Whether tasks may add tasks and wait for tasks. */
  readonly grows: boolean;
  /** Whether it may clean up when it ends. */
  readonly hasEndings: boolean;
  /** Whether handlers may have rates by key and rates that are spread. */
  readonly hasRates: boolean;
}

/** A random workflow that is valid by construction. */
function randomPlan(random: SeededRandom, asked: Asked): Plan {
  const { name, prefix } = asked;
  const isChild = !name.startsWith("w");
  const count = random.between(1, isChild ? 2 : 4);
  const names = Array.from({ length: count }, (_, i) => `${prefix.endsWith("b") ? "q" : "p"}${i}`);
  const hasRepair = random.chance(isChild ? 0.2 : 0.4);
  const phases: Record<string, unknown>[] = names.map((phase, i) => ({
    name: phase,
    handlers: randomHandlers(random, asked, phase),
    ...randomNext(random, { prefix, names, i }),
    ...(hasRepair && random.chance(0.7) ? { onError: "repair" } : {}),
  }));
  const last = phases.at(-1) as Record<string, unknown>;
  if (hasRepair) {
    if (last["next"] === undefined) last["final"] = true;
    phases.push({
      name: "repair",
      handlers: randomHandlers(random, asked, "repair"),
      ...(random.chance(0.5) ? { final: "failed" } : {}),
    });
  }
  const own = random.child(`unread signals of ${name}`);
  const unread = own.chance(0.25) ? own.pick(SIGNALS) : null;
  if (unread !== null) addCollecting(phases, unread);
  addReferences(phases, random.child("references"));
  const ends = asked.hasEndings ? randomEndings(random.child("endings"), prefix, phases) : {};
  const data = {
    rondo: 1,
    name,
    phases,
    ...ends,
    ...(random.chance(0.5) ? { returns: { use: `${prefix}.returns` } } : {}),
    ...(unread === null ? {} : { unread: { [unread]: "collect" } }),
  };
  // Drawn from a child generator: both versions mean the same, so the run is the same.
  const parsed = parseDefinition(random.child(`version of ${name}`).chance(0.5) ? asVersion2(data) : data);
  assert(!isRejection(parsed), `the grammar makes valid definitions: ${JSON.stringify(parsed)}`);
  return compilePlan(parsed);
}

/** Adds a phase that only unread signals lead to, and that takes one of them in each visit. */
function addCollecting(phases: Record<string, unknown>[], signal: string): void {
  const last = phases.at(-1) as Record<string, unknown>;
  if (last["next"] === undefined && last["final"] === undefined) last["final"] = true;
  phases.push({ name: "collect", handlers: { h0: { waitFor: signal } }, final: true, maxVisits: 100 });
}

/** The same definition in the form of version 2. */
function asVersion2(data: { readonly phases: readonly Record<string, unknown>[] }): unknown {
  const phases = data.phases.map((phase) => {
    const handlers = Object.entries(phase["handlers"] as Record<string, Record<string, unknown>>);
    return { ...phase, handlers: Object.fromEntries(handlers.map(([name, one]) => [name, handlerOf2(one)])) };
  });
  return { ...data, rondo: 2, phases };
}

function handlerOf2(handler: Record<string, unknown>): Record<string, unknown> {
  const { enumerate, ...rest } = handler;
  const { use, tasks } = rest;
  if (enumerate === undefined) return tasks === undefined ? { ...rest, single: true } : rest;
  return (enumerate as { readonly use: string }).use === use ? rest : handler;
}

function randomNext(
  random: SeededRandom,
  at: { prefix: string; names: readonly string[]; i: number },
): Record<string, unknown> {
  const phase = at.names[at.i] as string;
  if (random.chance(0.2)) {
    const among = [...new Set([random.pick(at.names), at.names.at(-1) as string])];
    return { next: { use: `${at.prefix}.${phase}.next`, among }, maxVisits: random.between(1, 3) };
  }
  if (random.chance(0.1) && at.i + 2 < at.names.length) return { next: at.names[at.i + 2] };
  return {};
}

function randomHandlers(random: SeededRandom, asked: Asked, phase: string): Record<string, unknown> {
  const count = random.pick(asked.name.startsWith("w") ? [0, 1, 1, 1, 2, 3] : [0, 1, 1, 1, 2]);
  const handlers: Record<string, unknown> = {};
  for (let i = 0; i < count; i++) {
    const use = `${asked.prefix}.${phase}.h${i}`;
    const own = random.child(`command ${use}`);
    const drawn = randomHandler(random, use, asked.children);
    const grown = asked.grows ? growing(random.child(`growth ${use}`), drawn) : drawn;
    const handler = asked.hasRates
      ? { ...grown, ...randomRates(random.child(`rates ${use}`), grown) }
      : grown;
    handlers[`h${i}`] = asked.hasCommands && own.chance(0.6) ? randomCommand(own, use) : handler;
  }
  return handlers;
}
