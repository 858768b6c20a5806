/**
 * Handlers whose tasks add tasks and wait for each other. Three kinds of tasks: `t` are enumerated, `a` are added by them and
 * `b` by those, so that every handler ends. A hash of the identity decides what a task adds and waits for: the same task is
 * always the same.
 */
import type { HandlerDefinition } from "../../../src/kernel/definition/definition.ts";
import { hashText, type SeededRandom } from "../../../src/std/random.ts";

/** The number of different tasks that can be added, of each kind. */
const ADDED = 4;

/** A handler that enumerates, made to add tasks or to wait for tasks, or both. */
export function growing(random: SeededRandom, handler: Record<string, unknown>): Record<string, unknown> {
  if (handler["enumerate"] === undefined || !random.chance(0.6)) return handler;
  const adds = handler["use"] !== undefined && random.chance(0.7);
  const waits = !adds || random.chance(0.6);
  const { batch: _, ...rest } = handler;
  return {
    ...(adds ? rest : handler),
    ...(adds ? { adds: true } : {}),
    ...(waits ? { identity: "/id", after: "/after" } : random.chance(0.5) ? { identity: "/id" } : {}),
  };
}

/** The text of a task with this identity, in a handler with `count` enumerated tasks. */
export function taskText(seed: string, id: string, count: number, { after }: HandlerDefinition): string {
  const key = `k${Number(id.slice(1)) % 2}`;
  return JSON.stringify(after === undefined ? { id, key } : { id, key, after: aftersOf(seed, id, count) });
}

/** The texts of the tasks that a task adds. Some are known by then, and some are added by several tasks. */
export function addedTexts(
  seed: string,
  text: string,
  count: number,
  definition: HandlerDefinition,
): readonly string[] {
  const { id } = JSON.parse(text) as { id: string };
  const draw = (name: string) => hashText(`${seed}/adds/${id}/${name}`);
  const next = id.startsWith("t") ? "a" : id.startsWith("a") ? "b" : null;
  if (next === null) return [];
  const names = Array.from({ length: draw("count") % 3 }, (_, i) => `${next}${draw(`name ${i}`) % ADDED}`);
  // A task that is enumerated, too: it counts once.
  if (definition.identity !== undefined && count > 0 && draw("known") % 4 === 0)
    names.push(`t${draw("t") % count}`);
  return names.map((name) => taskText(seed, name, count, definition));
}

/** The identities that a task waits for: mostly earlier ones, rarely one that waits for it, or one that is never added. */
function aftersOf(seed: string, id: string, count: number): readonly string[] {
  const draw = (name: string) => hashText(`${seed}/after/${id}/${name}`);
  const number = Number(id.slice(1));
  const names = new Set<string>();
  const earlier = id.startsWith("t") ? number : count;
  for (let i = 0; i < draw("count") % 3; i++) if (earlier > 0) names.add(`t${draw(`t ${i}`) % earlier}`);
  if (id.startsWith("b") && number > 0 && draw("b") % 3 === 0) names.add(`b${draw("which b") % number}`);
  const dice = draw("odd") % 100;
  if (dice < 3) names.add("x0");
  else if (dice < 8 && count > 0) names.add(`t${draw("any") % count}`);
  else if (dice < 14) names.add(`a${draw("a") % ADDED}`);
  return [...names];
}
