/** Groups errors: failed tasks of a handler are in one group if they have the same error, apart from numbers and names in its message. */
import type { Place } from "../../kernel/event.ts";
import { decodeReadable } from "../../kernel/journal/journal-entry.ts";
import { sha256 } from "../../std/hash.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { Store, StoredDeadLetter } from "../../store/store.ts";

/** The most dead letters that are read from the store at a time. */
const READ_TOGETHER = 100;
const MESSAGE_MAX = 500;

/** A group of equal errors. */
export interface ErrorGroup {
  readonly id: string;
  readonly name: string;
  readonly message: string;
}

/** Computes the group of an error, which is given as JSON text. */
export function errorGroup(
  place: {
    readonly project: string;
    readonly workflow: string;
    readonly phase: string | null;
    readonly handler: string | null;
  },
  payload: string,
): ErrorGroup {
  const { project, workflow, phase, handler } = place;
  const { name, message } = errorOf(payload);
  const text = [project, workflow, phase, handler, name, shapeOf(message)].join("\n");
  return { id: sha256(text).slice(0, 16), name, message };
}

/** Selects tasks by their error: by the id of an error group, or by the name of the error. */
export interface ErrorChoice {
  readonly error: string;
  readonly phase?: string;
  readonly visit?: number;
  readonly handler?: string;
}

/**
 * Returns the dead tasks of an execution that have this error. They belong to one handler, in its last visit unless another visit is
 * given.
 */
export async function tasksWithError(
  store: Store,
  execution: string,
  choice: ErrorChoice,
): Promise<(Place & { readonly numbers: readonly number[] }) | Rejection> {
  const found = new Map<string, Place & { readonly numbers: number[] }>();
  const names = new Map<string, number>();
  for (let before: number | null = null; ; ) {
    const letters: readonly StoredDeadLetter[] = await store.listDeadLetters(
      { execution },
      { before, max: READ_TOGETHER },
    );
    for (const letter of letters) await addTasks(store, letter, { choice, found, names });
    const last = letters.at(-1);
    if (last === undefined || letters.length < READ_TOGETHER) break;
    before = last.order;
  }
  const [first, ...others] = lastVisits([...found.values()]);
  const { error } = choice;
  if (first === undefined)
    return reject(
      "not_found",
      `execution ${execution} has no failed task with the error "${error}"`,
      hintOf(names),
    );
  if (others.length === 0) return first;
  const places = [first, ...others].map(({ phase, handler }) => `${phase}/${handler}`).join(", ");
  return reject("invalid_input", `tasks of several handlers have the error "${error}": ${places}`, {
    path: "error",
    hint: "name the phase and the handler, too",
  });
}

/** Returns a hint that lists the errors of failed tasks. */
function hintOf(names: ReadonlyMap<string, number>): { readonly hint?: string } {
  if (names.size === 0) return {};
  const shown = [...names].map(([name, tasks]) => `${name} (${tasks} ${tasks === 1 ? "task" : "tasks"})`);
  return { hint: `errors there: ${shown.join(", ")}` };
}

async function addTasks(
  store: Store,
  { execution, seq, workflow, project, tasks }: StoredDeadLetter,
  into: {
    readonly choice: ErrorChoice;
    readonly found: Map<string, Place & { readonly numbers: number[] }>;
    /** The number of failed tasks for each name of an error. */
    readonly names: Map<string, number>;
  },
): Promise<void> {
  const { choice, found, names } = into;
  const [entry] = await store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
  const event = entry === undefined ? undefined : decodeReadable(entry).find((one) => one.seq === seq)?.event;
  if (event?.kind !== "tasks.settled") return;
  const { phase, visit, handler } = event;
  const isMeant =
    (choice.phase ?? phase) === phase &&
    (choice.visit ?? visit) === visit &&
    (choice.handler ?? handler) === handler;
  if (!isMeant) return;
  const wanted = new Set(tasks);
  const key = `${phase}/${visit}/${handler}`;
  for (const [i, task] of event.tasks.entries()) {
    if (!wanted.has(task)) continue;
    const { id, name } = errorGroup({ project, workflow, phase, handler }, event.payloads[i] ?? "null");
    names.set(name, (names.get(name) ?? 0) + 1);
    if (choice.error !== id && choice.error !== name) continue;
    const at = found.get(key) ?? { phase, visit, handler, numbers: [] };
    at.numbers.push(task);
    found.set(key, at);
  }
}

/** Leaves out visits for which the list also has a later visit of the same handler. */
function lastVisits<At extends Place>(places: readonly At[]): At[] {
  return places.filter(
    ({ phase, handler, visit }) =>
      !places.some((one) => one.phase === phase && one.handler === handler && one.visit > visit),
  );
}

function errorOf(payload: string): { name: string; message: string } {
  const error: unknown = JSON.parse(payload);
  if (typeof error !== "object" || error === null)
    return { name: "Error", message: String(error).slice(0, MESSAGE_MAX) };
  const { name, code, message, kind } = error as Record<string, unknown>;
  const named = [name, code, kind].find((text) => typeof text === "string");
  const said = typeof message === "string" ? message : payload;
  return { name: named ?? "Error", message: said.slice(0, MESSAGE_MAX) };
}

/** Returns an error message without the parts that differ from task to task: quoted texts, numbers and ids. */
function shapeOf(message: string): string {
  return message
    .replaceAll(/"[^"]*"|'[^']*'|`[^`]*`/g, "…")
    .replaceAll(/[\w.-]*\d[\w.-]*/g, "0")
    .slice(0, 200);
}
