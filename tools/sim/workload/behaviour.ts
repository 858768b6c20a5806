/** The behaviour of simulated handler code. A hash decides it, so that the same attempt always does the same. */
import type { HandlerPlan } from "../../../src/kernel/definition/plan.ts";
import type { Outcome } from "../../../src/kernel/message.ts";
import type { Grant } from "../../../src/protocol/work.ts";
import { hashText } from "../../../src/std/random.ts";
import { taskText } from "./growth.ts";

export interface Behaviour {
  readonly seed: number;
  /** Faults are over: everything succeeds. */
  healed: boolean;
  readonly fails: boolean;
  readonly poison: boolean;
}

type At = Pick<Grant, "execution" | "phase" | "visit" | "handler">;

/** The bad end of an attempt; null: it succeeds. `dies`: it crashes its process. */
export function troubleOf(
  behaviour: Behaviour,
  grant: Pick<Grant, "do"> & At,
  at: { task: number; attempt: number },
): Outcome | "dies" | null {
  const place = `${grant.execution}/${grant.phase}/${grant.visit}/${grant.handler}/${at.task}`;
  const draw = (name: string) => hashText(`${behaviour.seed}/${name}`) / 4294967296;
  const isTask = grant.do === "process" || grant.do === "script" || grant.do === "command";
  // A poisoned task fails in every attempt, even after faults are over: it must end as a dead letter.
  if (behaviour.poison && isTask && draw(`poison/${place}`) < 0.01) return "dies";
  if (!behaviour.fails || behaviour.healed) return null;
  const dice = draw(`fail/${place}/${at.attempt}`);
  const payload = JSON.stringify({ name: "Error", message: `attempt ${at.attempt} fails` });
  if (dice < 0.08) return { status: "failed", payload };
  if (dice < 0.1) return { status: "failed", payload, fatal: true };
  if (dice < 0.12) return { status: "failed", payload, retryAfterMs: 150 };
  if (dice < 0.14) return { status: "killed", payload };
  if (dice < 0.16) return { status: "crashed", payload };
  if (dice < 0.17) return { status: "exception", payload };
  if (dice < 0.18) return { status: "cancelled", payload };
  return null;
}

/** The answer of a decision. */
export function decisionOf(seed: number, at: At, among: readonly string[]): string {
  const draw = hashText(`${seed}/next/${at.execution}/${at.phase}/${at.visit}`);
  return JSON.stringify(among[draw % Math.max(1, among.length)] ?? "nowhere");
}

/** The text that all draws about the tasks of a handler have in common. */
export function growthSeed(seed: number, { execution, phase, visit, handler }: At): string {
  return `${seed}/${execution}/${phase}/${visit}/${handler}`;
}

/** The number of tasks that a handler enumerates. */
export function countOf(seed: number, at: At, isChildren: boolean): number {
  const draw = hashText(`${seed}/count/${at.execution}/${at.phase}/${at.visit}/${at.handler}`);
  return draw % (isChildren ? 4 : 12);
}

/** The tasks that a handler enumerates, the same at each call. */
export function tasksOf(
  seed: number,
  at: At,
  plan: Pick<HandlerPlan, "mode" | "definition"> | undefined,
): { texts: string[]; keys: string[]; identities: string[] } {
  const count = countOf(seed, at, plan?.mode === "workflow");
  const texts: string[] = [];
  const keys: string[] = [];
  const identities: string[] = [];
  for (let i = 0; i < count; i++) {
    texts.push(taskText(growthSeed(seed, at), `t${i}`, count, plan?.definition ?? {}));
    keys.push(`k${i % 2}`);
    identities.push(`t${i}`);
  }
  return { texts, keys, identities };
}
