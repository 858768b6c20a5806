/** Executions that continue one another under one id: `ID`, `ID~2`, `ID~3`. Each begins after the end of the one before. */

import { numberOf } from "../kernel/definition/names.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import { successorId } from "../kernel/definition/successor-id.ts";
import type { Succession } from "../kernel/event.ts";
import type { ExecutionView } from "../kernel/view.ts";
import { defined } from "../std/defined.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { Reply } from "./driver-options.ts";
import { type EnginePort, type StartOptions, type StartParts, startExecution } from "./engine-port.ts";
import { awaitNewest, untilKnown } from "./newest.ts";

/**
 * Says what a start does if its id is taken. Without this option, a start with the same workflow and input returns the existing
 * execution.
 */
export type IfExists = "fail" | "startNewWhenDone";

/**
 * Starts an execution under an id that may be taken. Returns the id of the execution that was started or found. If two callers start
 * a successor at the same time, one successor is started, and the second caller finds it.
 */
export async function startIfExists(
  parts: StartParts,
  { plan, input }: { readonly plan: Plan; readonly input: string },
  { ifExists, ...options }: StartOptions & { readonly ifExists: IfExists },
): Promise<{ readonly id: string; readonly reply: Reply }> {
  const send = async (
    id: string | undefined,
    succession?: Succession,
  ): Promise<{ readonly id: string; readonly reply: Reply }> => {
    const start = startExecution(parts, plan, input, { ...options, id, ...defined({ succession }) });
    return { id: start.id, reply: await start.send({ views: true }) };
  };
  const first = await send(options.id);
  if (options.id === undefined) return first;
  if (ifExists === "fail") {
    if (!first.reply.existed) return first;
    const answer = reject("conflict", `execution ${options.id} exists`, {
      path: "id",
      hint: 'choose another id, or give ifExists: "return"',
    });
    return { ...first, reply: { ...first.reply, answer } };
  }
  for (let found = first; isTaken(found.reply); ) {
    const newest = await awaitNewest(parts.engine, options.id);
    if (isRejection(newest)) return { ...found, reply: { ...found.reply, answer: newest } };
    const { id, finishedAt, project } = newest.view;
    // All executions of an id belong to one project, because the id means the newest of them for every caller.
    if (project !== options.project)
      return { ...found, reply: { ...found.reply, answer: idTaken(newest.view) } };
    if (finishedAt === null) return id === found.id ? found : { id, reply: existing(newest.view) };
    const number = (await lastEnded(parts.engine, options.id, numberOf(id))) + 1;
    const place = { first: options.id, number };
    found = await send(successorId(options.id, number), place);
    if (!found.reply.existed && !isRejection(found.reply.answer)) await untilKnown(parts.engine, place);
    if (!isTaken(found.reply) || !(await hasEnded(parts.engine, found.id))) return found;
  }
  return first;
}

/** Returns the rejection of an id that belongs to another project. */
function idTaken({ id, project }: ExecutionView): Rejection {
  return reject("conflict", `execution ${id} exists in the project "${project}"`, {
    path: "id",
    hint: "choose another id",
  });
}

/** Returns the reply to a start that finds an existing execution with the same workflow and input, or its successor. */
function existing(view: ExecutionView): Reply {
  return { answer: { kind: "applied", seq: view.revision }, existed: true, view };
}

/** Whether an execution with the id of the start existed before, with the same input or another one. */
function isTaken({ existed, answer }: Reply): boolean {
  return existed || (isRejection(answer) && answer.code === "conflict");
}

async function hasEnded(engine: EnginePort, id: string): Promise<boolean> {
  const found = await engine.inspect(id);
  return !isRejection(found) && found.view.finishedAt !== null;
}

/** Finds the highest number of an ended execution of an id, by binary search. */
async function lastEnded(engine: EnginePort, id: string, known: number): Promise<number> {
  let ended = known;
  let step = 1;
  for (; await hasEnded(engine, successorId(id, ended + step)); step *= 2) ended += step;
  for (; step > 1; step = step / 2)
    if (await hasEnded(engine, successorId(id, ended + step / 2))) ended += step / 2;
  return ended;
}
