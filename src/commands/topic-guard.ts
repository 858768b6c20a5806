/**
 * Checks the topics of a workflow before it starts: against the rules of its project, the roles of the topic names, and the contents of
 * the receipt queue. The engine checks them again when it sends a command, because children and schedules start without this check.
 */
import { atCommand, type TopicRules } from "../kernel/command/topic-rules.ts";
import type { PlannedCommand } from "../kernel/definition/plan.ts";
import type { Rejection } from "../std/rejection.ts";
import { type TopicRegistry, usesOf } from "./topic-registry.ts";

export interface TopicGuardParts {
  readonly rules: TopicRules;
  readonly registry: TopicRegistry;
  /** Returns why receipts cannot be consumed from a queue; null if they can, or if that is not known. */
  readonly refusesReceipts: (receiptTopic: string) => Promise<Rejection | null>;
}

export class TopicGuard {
  readonly #parts: TopicGuardParts;

  constructor(parts: TopicGuardParts) {
    this.#parts = parts;
  }

  /** Sets the projects to which tokens are bound. */
  bind(projects: ReadonlySet<string>): void {
    this.#parts.rules.bind(projects);
  }

  /** Returns why a name is reserved and cannot be a topic; null if it is not reserved. */
  reserved(name: string): Rejection | null {
    return this.#parts.rules.reserved(name);
  }

  /** Returns why no project can start a workflow with these commands; null if some project can. */
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

  /**
   * Returns why a project cannot start a workflow with these commands. Returns null if it can; the roles of the topics are stored in that
   * case.
   */
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
