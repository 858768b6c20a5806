/** What simulated handler code does: decided by a hash, so that the same attempt always does the same. */
import type { Outcome } from "../kernel/message.ts";
import type { Grant } from "../protocol/work.ts";
import { hashText } from "../std/random.ts";

export interface Behaviour {
  readonly seed: number;
  /** Faults are over: everything succeeds. */
  healed: boolean;
  readonly fails: boolean;
  readonly poison: boolean;
}

/** How an attempt ends; `dies`: it takes its process down. */
export function outcomeOf(
  behaviour: Behaviour,
  grant: Grant,
  task: number,
  attempt: number,
): Outcome | "dies" {
  const draw = (name: string) =>
    hashText(
      `${behaviour.seed}/${name}/${grant.execution}/${grant.phase}/${grant.visit}/${grant.handler}/${task}`,
    ) / 4294967296;
  // Poison is poison in every attempt, healed or not: it must end as a dead letter.
  if (behaviour.poison && grant.do === "process" && draw("poison") < 0.01) return "dies";
  if (behaviour.fails && !behaviour.healed) {
    const dice =
      hashText(
        `${behaviour.seed}/fail/${grant.execution}/${grant.phase}/${grant.visit}/${grant.handler}/${task}/${attempt}`,
      ) / 4294967296;
    const error = JSON.stringify({ name: "Error", message: `attempt ${attempt} fails` });
    if (dice < 0.08) return { status: "failed", payload: error };
    if (dice < 0.1) return { status: "failed", payload: error, fatal: true };
    if (dice < 0.12) return { status: "failed", payload: error, retryAfterMs: 150 };
    if (dice < 0.14) return { status: "killed", payload: error };
    if (dice < 0.16) return { status: "crashed", payload: error };
    if (dice < 0.17) return { status: "exception", payload: error };
    if (dice < 0.18) return { status: "cancelled", payload: error };
  }
  return { status: "done", payload: resultOf(grant, task, draw("next")) };
}

function resultOf(grant: Grant, task: number, draw: number): string {
  if (grant.do !== "next") return JSON.stringify({ r: `${grant.handler}#${task}` });
  const { among } = JSON.parse(grant.input) as { among: Record<string, readonly string[]> };
  const names = among[grant.phase] ?? [];
  return JSON.stringify(names[Math.floor(draw * names.length)] ?? "nowhere");
}

/** The tasks a handler enumerates: the same each time it is asked. */
export function tasksOf(
  behaviour: Behaviour,
  grant: Pick<Grant, "execution" | "phase" | "visit" | "handler">,
): { texts: string[]; keys: string[]; identities: string[] } {
  const count =
    hashText(`${behaviour.seed}/count/${grant.execution}/${grant.phase}/${grant.visit}/${grant.handler}`) %
    12;
  const texts: string[] = [];
  const keys: string[] = [];
  const identities: string[] = [];
  for (let i = 0; i < count; i++) {
    texts.push(JSON.stringify({ id: `t${i}`, key: `k${i % 2}` }));
    keys.push(`k${i % 2}`);
    identities.push(`t${i}`);
  }
  return { texts, keys, identities };
}
