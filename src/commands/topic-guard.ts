/**
 * Checks the topics of a workflow before it is started: by the rules of its project, by the roles that names have, and by
 * what is in the queue that receipts are to come from. The same is checked again when a command is sent, since children
 * and schedules start without being asked here.
 */

import { atCommand, type TopicRules } from "../kernel/command/topic-rules.ts";
import type { PlannedCommand } from "../kernel/definition/plan.ts";
import type { Rejection } from "../std/rejection.ts";
import { type TopicRegistry, usesOf } from "./topic-registry.ts";

export interface TopicGuardParts {
  readonly rules: TopicRules;
  readonly registry: TopicRegistry;
  /** Why receipts cannot be consumed from a queue; null: they can, or nobody can tell now. */
  readonly refusesReceipts: (receiptTopic: string) => Promise<Rejection | null>;
}

export class TopicGuard {
  readonly #parts: TopicGuardParts;

  constructor(parts: TopicGuardParts) {
    this.#parts = parts;
  }

  /** Replaces the set of projects that a token is bound to. */
  bind(projects: ReadonlySet<string>): void {
    this.#parts.rules.bind(projects);
  }

  /** Why nobody may use a name as a topic; null: it is not reserved. */
  reserved(name: string): Rejection | null {
    return this.#parts.rules.reserved(name);
  }

  /** Why no project could start a workflow with these commands; null: one could. */
  async check(commands: readonly PlannedCommand[]): Promise<Rejection | null> {
    const { rules, registry } = this.#parts;
    return first(
      commands,
      async ({ command }) =>
        rules.reserved(command.topic) ??
        rules.reserved(command.receiptTopic) ??
        (await registry.check(usesOf(command))),
    );
  }

  /** Why a project cannot start a workflow with these commands; null: it can, and their topics have their roles now. */
  async admit(project: string, commands: readonly PlannedCommand[]): Promise<Rejection | null> {
    if (commands.length === 0) return null;
    const { rules, registry, refusesReceipts } = this.#parts;
    return (
      rules.refusalOf(project, commands) ??
      (await this.check(commands)) ??
      (await first(commands, ({ command }) => refusesReceipts(command.receiptTopic))) ??
      (await first(commands, ({ command }) => registry.claim(usesOf(command), project)))
    );
  }
}

async function first(
  commands: readonly PlannedCommand[],
  check: (planned: PlannedCommand) => Promise<Rejection | null>,
): Promise<Rejection | null> {
  for (const planned of commands) {
    const refusal = await check(planned);
    if (refusal !== null)
      return atCommand(refusal, { phase: planned.phase.name, handler: planned.handler.name });
  }
  return null;
}
