/** The program of a task's code, step by step. It is drawn from a hash, so that every attempt has the same program. */
import { hashText } from "../../../src/std/random.ts";

export type Op =
  /** `isLater`: only attempts after the first have this step, like code that reads the number of its attempt. */
  | { readonly kind: "step"; readonly name: string; readonly isLater: boolean }
  | { readonly kind: "sleep"; readonly name: string; readonly ms: number }
  /** `isCaught`: the code goes on after a time-out; else the task fails for good. */
  | {
      readonly kind: "wait";
      readonly name: string;
      readonly timeoutMs: number | null;
      readonly isCaught: boolean;
    }
  /** A step with its own budget that fails at its first tries. `isCaught`: the code goes on after its final failure. */
  | {
      readonly kind: "tries";
      readonly name: string;
      readonly fails: number;
      readonly attempts: number;
      readonly isCaught: boolean;
    }
  /**
   * An execution of `KID`. `isDetached`: it is on its own. `isLeft`: the code goes on and ends without it. `isCaught`: the code goes on
   * after its failure.
   */
  | {
      readonly kind: "child";
      readonly name: string;
      readonly isDetached: boolean;
      readonly isLeft: boolean;
      readonly isCaught: boolean;
    }
  /** A map over the items of `mapPages`, which run as tasks of `MAPPED`. `isCaught`: the code goes on after its failure. */
  | { readonly kind: "map"; readonly name: string; readonly isCaught: boolean }
  /** A wait for an update and its answer. If none comes in time, the code goes on. */
  | { readonly kind: "update"; readonly name: string; readonly timeoutMs: number }
  /** A wait for the next item of an entity. The last item ends the code. */
  | { readonly kind: "take"; readonly name: string }
  /** The execution continues as another one, with the items that it has taken. */
  | { readonly kind: "continue"; readonly name: string }
  /** A reading of the clock. */
  | { readonly kind: "now"; readonly name: string }
  /** Several waits side by side; the code goes on once all of them have ended. */
  | { readonly kind: "waits"; readonly name: string; readonly branches: readonly Branch[] };

/** One of several waits: a sleep, or a wait for the first of some signals. */
export interface Branch {
  readonly name: string;
  readonly ms: number | null;
  readonly anyOf: readonly string[];
  readonly timeoutMs: number | null;
}

/** The signals that tasks wait for. */
export const SIGNALS = ["go", "stop"] as const;

/** The code of an entity, and the end of the name of its last item. */
export const ENTITY = "entity.live";
export const LAST = "-last";

/** The signals that bring items to entities. */
export const ITEM_SIGNALS = ["item", "other item"] as const;

/** The update that tasks wait for. */
export const ASK = "ask";

/** The end of the name of the step that answers an update. */
export const ANSWER = ".answer";

/** Seeds from this one on talk: their code writes streams, publishes values and answers updates, and users send updates. */
export const TALKING_FROM = 1_000_000_000;

/** Whether the code of a seed talks. */
export function talks(seed: number): boolean {
  return seed >= TALKING_FROM;
}

/** The workflow that the code of tasks runs. */
export const KID = "kid";

/** The workflow that runs the items of maps. */
export const MAPPED = "mapped";

/** Whether the code of tasks has maps with handlers. Seeds below 2,000 have the programs that they had before. */
export function mapsItems(seed: number): boolean {
  return seed >= 2_000 && hashText(`${seed}/maps of code`) % 10 < 3;
}

/** The pages of the items of a map, as JSON texts. The key has the place of the map: its execution, handler, task and name. */
export function mapPages(
  seed: number,
  { execution, phase, visit, handler, task, name }: MapPlace,
): string[][] {
  const key = `${execution}/${phase}/${visit}/${handler}/${task}/${name}`;
  return Array.from({ length: hashText(`${seed}/pages/${key}`) % 4 }, (_, page) =>
    Array.from({ length: 1 + (hashText(`${seed}/page ${page}/${key}`) % 3) }, (_, i) =>
      JSON.stringify({ page, i, of: key }),
    ),
  );
}

/** Where a map is. */
interface MapPlace {
  readonly execution: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  readonly name: string;
}

/** Whether the code of tasks runs children and reads the clock. Other seeds have the programs that they had before. */
export function runsChildren(seed: number): boolean {
  return hashText(`${seed}/children of code`) % 10 < 4;
}

function branchesOf(draw: (name: string) => number, i: number): readonly Branch[] {
  return Array.from({ length: 2 + (draw(`branches ${i}`) % 2) }, (_, b) => {
    const name = `w${i}.${b}`;
    const dice = draw(`branch ${i} ${b}`);
    if (dice % 3 === 0) return { name, ms: [0, 300, 2_000][dice % 7] ?? 50, anyOf: [], timeoutMs: null };
    const anyOf = dice % 5 === 0 ? SIGNALS : [SIGNALS[dice % 2] ?? "go"];
    return { name, ms: null, anyOf, timeoutMs: [null, 200, 2_000][dice % 11] ?? 1_000 };
  });
}

/** The program of an entity: some items, then the next execution. */
function entityProgram(seed: number): readonly Op[] {
  const takes = Array.from({ length: 1 + (hashText(`${seed}/items of an entity`) % 3) }, (_, i) => ({
    kind: "take" as const,
    name: `i${i}`,
  }));
  return [...takes, { kind: "continue", name: "next" }];
}

/** The program of a task; empty: the code just ends. */
export function programOf(seed: number, use: string, task: number): readonly Op[] {
  if (use === ENTITY) return entityProgram(seed);
  const draw = (name: string) => hashText(`${seed}/program/${name}/${use}/${task}`);
  if (!talks(seed) && hashText(`${seed}/program/${use}`) % 10 >= 4) return [];
  const ops: Op[] = [];
  const signals: string[] = [...SIGNALS];
  const count = 1 + (draw("count") % 4);
  for (let i = 0; i < count; i++) {
    const dice = draw(`kind ${i}`) % 10;
    const later = draw(`newer ${i}`) % 10;
    const own = runsChildren(seed) ? draw(`child ${i}`) % 10 : 9;
    if (own < 3 && !use.startsWith(`${KID}.`)) {
      const isDetached = draw(`detached ${i}`) % 5 === 0;
      const isLeft = draw(`left ${i}`) % 4 === 0;
      const isCaught = draw(`caught ${i}`) % 2 === 0;
      ops.push({ kind: "child", name: `c${i}`, isDetached, isLeft, isCaught });
    } else if (own === 3) ops.push({ kind: "now", name: `n${i}` });
    else if (dice >= 5 && later < 3) {
      const fails = draw(`fails ${i}`) % 4;
      ops.push({ kind: "tries", name: `t${i}`, fails, attempts: 3, isCaught: draw(`caught ${i}`) % 2 === 0 });
    } else if (dice >= 5 && later < 6)
      ops.push({ kind: "waits", name: `w${i}`, branches: branchesOf(draw, i) });
    else if (dice < 2)
      ops.push({ kind: "sleep", name: `z${i}`, ms: [0, 30, 400, 3_000][draw(`ms ${i}`) % 4] ?? 0 });
    else if (dice < 5 && signals.length > 0) {
      const [name] = signals.splice(draw(`signal ${i}`) % signals.length, 1) as [string];
      const timeoutMs = [null, null, 200, 2_000][draw(`timeout ${i}`) % 4] ?? null;
      ops.push({ kind: "wait", name, timeoutMs, isCaught: draw(`caught ${i}`) % 2 === 0 });
    } else ops.push({ kind: "step", name: `s${i}`, isLater: draw(`later ${i}`) % 5 < 2 });
  }
  const isOwn = [KID, MAPPED].every((workflow) => !use.startsWith(`${workflow}.`));
  if (mapsItems(seed) && isOwn && draw("map") % 3 === 0)
    ops.splice(draw("map at") % (ops.length + 1), 0, {
      kind: "map",
      name: "m",
      isCaught: draw("map caught") % 2 === 0,
    });
  for (let i = talks(seed) ? 1 + (draw("updates") % 2) : 0; i > 0; i--) {
    const timeoutMs = [200, 1_000, 3_000][draw(`update ${i}`) % 3] ?? 200;
    ops.splice(draw(`place ${i}`) % (ops.length + 1), 0, { kind: "update", name: `u${i}`, timeoutMs });
  }
  return ops;
}
