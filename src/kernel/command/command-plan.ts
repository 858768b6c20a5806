/**
 * A command made ready to be sent: its topics, its hashes filled in, its references found, its post-operations with
 * their policies. Made once, when a definition is compiled.
 */
import type { Json } from "../../std/json.ts";
import {
  type CommandDefinition,
  DEFAULTS,
  type Definition,
  type HandlerDefinition,
} from "../definition/definition.ts";
import { duration } from "../definition/parse-primitive.ts";
import type { PostOpKind } from "../event.ts";
import type { RetryPolicy } from "../tasks/retry.ts";
import { commandHash, commandsHash } from "./command-hash.ts";
import type { Enrichment } from "./enrich.ts";
import { parseReferences, type Reference } from "./reference.ts";
import { receiptTopicOf } from "./topic.ts";

/** How a post-operation is tried. */
export interface PostOpPolicy extends RetryPolicy {
  readonly attempts: number;
  readonly timeoutMs: number;
}

/** Where a result is kept. */
export interface PersistencePlan extends PostOpPolicy {
  readonly store: string;
  readonly key: string;
  readonly partition: string | null;
}

/** Whom a result is told to. */
export interface BroadcastPlan extends PostOpPolicy {
  readonly url: string;
  /** What is said instead of, or beside, the result; undefined: nothing. */
  readonly staticPayload: Json | undefined;
  /** The command is settled only when this has ended, either way. */
  readonly awaited: boolean;
}

export interface CommandPlan {
  /** Which command of the workflow, counted from 0. */
  readonly step: number;
  readonly topic: string;
  readonly receiptTopic: string;
  /** The command with both hashes in its metadata; its references are not resolved. */
  readonly cmd: Required<CommandDefinition>;
  readonly hash: string;
  readonly workflowHash: string;
  readonly references: readonly Reference[];
  readonly enrichment: readonly Enrichment[];
  readonly persistence: PersistencePlan | null;
  readonly broadcasts: readonly BroadcastPlan[];
  /** Whether something must be done with the result before the task is settled. */
  readonly holds: boolean;
}

/** Plans the commands of a definition, in order; each call gives the next. */
export function commandPlanner(definition: Definition): (handler: HandlerDefinition) => CommandPlan | null {
  const commands = definition.phases
    .flatMap(({ handlers }) => Object.values(handlers))
    .flatMap(({ command }) => (command === undefined ? [] : [command]));
  if (commands.length === 0) return () => null;
  const workflowHash = commandsHash(commands);
  let step = 0;
  return (handler) =>
    handler.command === undefined
      ? null
      : planCommand(handler, handler.command, { step: step++, workflowHash });
}

/** The persistence or broadcast of a command; undefined: it has none such. */
export function postOpPlan(
  command: CommandPlan,
  op: PostOpKind,
  index: number,
): PersistencePlan | BroadcastPlan | undefined {
  return op === "broadcast" ? command.broadcasts[index] : (command.persistence ?? undefined);
}

/** The name of what a post-operation goes to. */
export function targetOf(plan: PersistencePlan | BroadcastPlan): string {
  return "url" in plan ? plan.url : plan.store;
}

interface WrittenPostOps {
  readonly cmd_result_enrichment?: { readonly prop_map: readonly Enrichment[] };
  readonly cmd_result_persistence?: WrittenPolicy & {
    readonly target_statestore_name: string;
    readonly target_statestore_key: string;
    readonly target_statestore_partition_key?: string | null;
  };
  readonly cmd_result_broadcasts?: readonly (WrittenPolicy & {
    readonly url: string;
    readonly static_payload?: Json;
    readonly await?: boolean;
  })[];
}

interface WrittenPolicy {
  readonly retry?: {
    readonly attempts?: number;
    readonly backoff?: "exponential" | "constant";
    readonly min?: unknown;
    readonly max?: unknown;
  };
  readonly timeout?: unknown;
}

function planCommand(
  { topic = "", receiptTopic }: HandlerDefinition,
  command: CommandDefinition,
  { step, workflowHash }: { step: number; workflowHash: string },
): CommandPlan {
  const hash = commandHash(command);
  const { cmd_type, cmd_data = {}, cmd_metadata = {} } = command;
  const written = (cmd_metadata["cmd_post_op"] ?? {}) as WrittenPostOps;
  const kept = written.cmd_result_persistence;
  const persistence =
    kept === undefined
      ? null
      : {
          store: kept.target_statestore_name,
          key: kept.target_statestore_key,
          partition: kept.target_statestore_partition_key ?? null,
          ...planPolicy(kept),
        };
  const broadcasts = (written.cmd_result_broadcasts ?? []).map((one) => ({
    url: one.url,
    staticPayload: one.static_payload,
    awaited: one.await === true,
    ...planPolicy(one),
  }));
  return {
    step,
    topic,
    receiptTopic: receiptTopic ?? receiptTopicOf(topic),
    cmd: {
      cmd_type,
      cmd_data,
      cmd_metadata: { ...cmd_metadata, workflow_hash: workflowHash, cmd_hash: hash },
    },
    hash,
    workflowHash,
    references: parseReferences(cmd_data, "cmd_data"),
    enrichment: written.cmd_result_enrichment?.prop_map ?? [],
    persistence,
    broadcasts,
    holds: persistence !== null || broadcasts.some(({ awaited }) => awaited),
  };
}

function planPolicy({ retry = {}, timeout }: WrittenPolicy): PostOpPolicy {
  const min = retry.min === undefined ? DEFAULTS.retryMinMs : duration(retry.min, "min");
  const max = retry.max === undefined ? DEFAULTS.retryMaxMs : duration(retry.max, "max");
  return {
    attempts: retry.attempts ?? DEFAULTS.postOpAttempts,
    backoff: retry.backoff ?? "exponential",
    retryMinMs: min,
    retryMaxMs: Math.max(min, max),
    timeoutMs: timeout === undefined ? DEFAULTS.postOpTimeoutMs : duration(timeout, "timeout"),
  };
}
