/** Random commands: with and without persistence, broadcasts that are awaited or not, references to earlier results. */

import type { PostOpOutcome } from "../../../src/kernel/message.ts";
import { hashText, type SeededRandom } from "../../../src/std/random.ts";
import type { Behaviour } from "./behaviour.ts";

/** A command in place of a handler's code, with its own topic. */
export function randomCommand(random: SeededRandom, use: string): Record<string, unknown> {
  const retry = () => ({ attempts: random.between(1, 3), min: random.pick([0, 50, 400]), max: 400 });
  const postOps = {
    ...(random.chance(0.4) ? { cmd_result_enrichment: { prop_map: [{ key: "e", val: use }] } } : {}),
    ...(random.chance(0.6)
      ? {
          cmd_result_persistence: {
            target_statestore_name: "s",
            target_statestore_key: use,
            retry: retry(),
          },
        }
      : {}),
    ...(random.chance(0.6)
      ? {
          cmd_result_broadcasts: Array.from({ length: random.between(1, 3) }, (_, i) => ({
            url: `http://there-${i}/`,
            retry: retry(),
            ...(random.chance(0.3) ? { await: true } : {}),
          })),
        }
      : {}),
  };
  return {
    command: { cmd_type: use, cmd_data: {}, cmd_metadata: { cmd_post_op: postOps } },
    topic: use.replaceAll(".", "_"),
    retry: {
      attempts: random.between(1, 4),
      crashes: random.between(2, 4),
      min: random.pick([0, 10, 200]),
      max: 200,
    },
    heartbeat: random.pick([300, 1_000]),
    ...(random.chance(0.3) ? { tolerate: random.pick([1, "50%"]) } : {}),
    ...(random.chance(0.3) ? { concurrency: random.between(1, 2) } : {}),
    ...(random.chance(0.3)
      ? { tasks: Array.from({ length: random.below(5) }, (_, i) => ({ listed: i })) }
      : {}),
  };
}

interface WrittenPhase {
  readonly handlers?: unknown;
}

/** Lets commands refer to the results of single commands in earlier phases. */
export function addReferences(phases: readonly WrittenPhase[], random: SeededRandom): void {
  let step = 0;
  let before: number[] = [];
  for (const { handlers } of phases) {
    const here: number[] = [];
    for (const handler of Object.values((handlers ?? {}) as Record<string, Record<string, unknown>>)) {
      if (handler["command"] === undefined) continue;
      const command = handler["command"] as { cmd_data: Record<string, unknown> };
      if (before.length > 0 && random.chance(0.5))
        command.cmd_data["from"] = `\${steps[${random.pick(before)}].cmd_result.r}`;
      if (handler["tasks"] === undefined) here.push(step);
      step++;
    }
    before = [...before, ...here];
  }
}

/** The end of a try of a post-operation. A hash decides it, so that the same try always ends the same. */
export function postOpOutcome(behaviour: Behaviour, op: string, attempt: number): PostOpOutcome {
  if (!behaviour.fails || behaviour.healed) return { kind: "done" };
  const dice = hashText(`${behaviour.seed}/postop/${op}/${attempt}`) / 4294967296;
  const error = { name: "Error", message: `try ${attempt} fails` };
  if (dice < 0.25) return { kind: "failed", error };
  if (dice < 0.28) return { kind: "failed", error, fatal: true };
  return dice < 0.32 ? { kind: "failed", error, retryAfterMs: 150 } : { kind: "done" };
}
