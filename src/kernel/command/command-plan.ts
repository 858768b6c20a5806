/**
 * The plan of a command: its topics, hashes, references and post-operations with their policies. The plan is made once, when a
 * definition is compiled. Hashes cover the submitted form of the command: references are not resolved, and fields that Rondo fills in
 * are left out.
 */
import { canonicalJson } from "../../std/canonical-json.ts";
import { durationMs } from "../../std/duration.ts";
import { sha256 } from "../../std/hash.ts";
import type { Json } from "../../std/json.ts";
import {
  type CommandDefinition,
  DEFAULTS,
  type Definition,
  type HandlerDefinition,
} from "../definition/definition.ts";
import type { PostOpKind } from "../event.ts";
import type { RetryPolicy } from "../tasks/retry.ts";
import type { Enrichment } from "./post-op.ts";
import { parseReferences, type Reference } from "./reference.ts";
import { receiptTopicOf } from "./topic-rules.ts";

/** A post-operation's retry policy and timeout. */
export interface PostOpPolicy extends RetryPolicy {
  readonly attempts: number;
  readonly timeoutMs: number;
}

/** The plan of a persistence: the state store and the key under which a result is stored. */
export interface PersistencePlan extends PostOpPolicy {
  readonly store: string;
  readonly key: string;
  readonly partition: string | null;
}

/** The plan of a broadcast: the URL that a result is sent to. */
export interface BroadcastPlan extends PostOpPolicy {
  readonly url: string;
  /** A payload to send in place of, or together with, the result; undefined if there is none. */
  readonly staticPayload: Json | undefined;
  /** Whether the command is settled only after this broadcast has succeeded or failed for good. */
  readonly awaited: boolean;
}

export interface CommandPlan {
  /** The number of the command in the workflow, from 0. */
  readonly step: number;
  readonly topic: string;
  readonly receiptTopic: string;
  /** The command with `cmd_hash` and `workflow_hash` in its metadata. Its references are not resolved. */
  readonly cmd: Required<CommandDefinition> & {
    readonly cmd_metadata: { readonly cmd_hash: string; readonly workflow_hash: string };
  };
  readonly hash: string;
  readonly workflowHash: string;
  readonly references: readonly Reference[];
  readonly enrichment: readonly Enrichment[];
  readonly persistence: PersistencePlan | null;
  readonly broadcasts: readonly BroadcastPlan[];
  /** Whether the command has a post-operation that must end before its task is settled. */
  readonly holds: boolean;
}

/**
 * Returns a function that plans the command of a handler. It must be called for all handlers in order, because it numbers the
 * commands.
 */
export function commandPlanner(definition: Definition): (handler: HandlerDefinition) => CommandPlan | null {
  const commands = definition.phases
    .flatMap(({ handlers }) => Object.values(handlers))
    .flatMap(({ command }) => (command === undefined ? [] : [command]));
  if (commands.length === 0) return () => null;
  const { hashes, workflowHash } = commandHashes(commands);
  let step = 0;
  return (handler) => {
    if (handler.command === undefined) return null;
    const hash = hashes[step] as string;
    return planCommand(handler, handler.command, { step: step++, hash, workflowHash });
  };
}

/** Returns the plan of a post-operation; undefined if the command has no such post-operation. */
export function postOpPlan(
  command: CommandPlan,
  op: PostOpKind,
  index: number,
): PersistencePlan | BroadcastPlan | undefined {
  return op === "broadcast" ? command.broadcasts[index] : (command.persistence ?? undefined);
}

/** Returns the state store or URL of a post-operation. */
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
  { step, hash, workflowHash }: Pick<CommandPlan, "step" | "hash" | "workflowHash">,
): CommandPlan {
  const { cmd_data = {}, cmd_metadata = {} } = command;
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
    cmd: withHashes(command, hash, workflowHash),
    hash,
    workflowHash,
    references: parseReferences(cmd_data, "cmd_data"),
    enrichment: written.cmd_result_enrichment?.prop_map ?? [],
    persistence,
    broadcasts,
    holds: persistence !== null || broadcasts.some(({ awaited }) => awaited),
  };
}

/** The command with all fields, and both hashes in its metadata. */
export function withHashes(
  { cmd_type, cmd_data = {}, cmd_metadata = {} }: CommandDefinition,
  hash: string,
  workflowHash: string,
): CommandPlan["cmd"] {
  return {
    cmd_type,
    cmd_data,
    cmd_metadata: { ...cmd_metadata, workflow_hash: workflowHash, cmd_hash: hash },
  };
}

const givenMs = durationMs();

function planPolicy({ retry = {}, timeout }: WrittenPolicy): PostOpPolicy {
  const min = retry.min === undefined ? DEFAULTS.retryMinMs : givenMs(retry.min);
  const max = retry.max === undefined ? DEFAULTS.retryMaxMs : givenMs(retry.max);
  return {
    attempts: retry.attempts ?? DEFAULTS.postOpAttempts,
    backoff: retry.backoff ?? "exponential",
    retryMinMs: min,
    retryMaxMs: Math.max(min, max),
    timeoutMs: timeout === undefined ? DEFAULTS.postOpTimeoutMs : givenMs(timeout),
  };
}

/** Computes the `cmd_hash` of each command, and the `workflow_hash` of all commands in their order. */
export function commandHashes(commands: readonly CommandDefinition[]): {
  readonly hashes: readonly string[];
  readonly workflowHash: string;
} {
  const texts = commands.map(hashedText);
  // The joined texts are the canonical form of the list of commands.
  return { hashes: texts.map(sha256), workflowHash: sha256(`[${texts.join(",")}]`) };
}

/** Returns the canonical text of the part of a command that is hashed. Missing data counts as `{}`; null does not. */
function hashedText({ cmd_type, cmd_data = {}, cmd_metadata }: CommandDefinition): string {
  const { cmd_hash: _, workflow_hash: __, rondo: ___, ...metadata } = cmd_metadata ?? {};
  return canonicalJson({ cmd_type, cmd_data, cmd_metadata: metadata });
}
