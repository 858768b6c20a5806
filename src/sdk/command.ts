/** A command as it is written in code. Its fields have the names that they have on topics. */
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type { EnumerationSpec } from "./handler.ts";

/** How a post-operation is tried. */
interface PostOpOptions {
  readonly retry?: {
    readonly attempts?: number;
    readonly backoff?: "exponential" | "constant";
    readonly min?: Duration;
    readonly max?: Duration;
  };
  readonly timeout?: Duration;
}

/** What is done with the result of a command, in this order. */
export interface PostOperations {
  /** Put into the result, before anything else sees it. */
  readonly cmd_result_enrichment?: {
    readonly prop_map: readonly { readonly key: string; readonly val: Json }[];
  };
  /** Kept in a state store, before the next step begins. */
  readonly cmd_result_persistence?: PostOpOptions & {
    readonly target_statestore_name: string;
    readonly target_statestore_key: string;
    readonly target_statestore_partition_key?: string | null;
  };
  /** Told to others by HTTP; the workflow goes on meanwhile, unless `await` is set. */
  readonly cmd_result_broadcasts?: readonly (PostOpOptions & {
    readonly url: string;
    readonly static_payload?: Json;
    readonly await?: boolean;
  })[];
}

/** A command as data. */
export interface Command {
  readonly cmd_type: string;
  /** With references: `${steps[0].cmd_result.a}`, `${input.a}`, `${task.a}`. */
  readonly cmd_data?: Json;
  readonly cmd_metadata?: {
    readonly cmd_post_op?: PostOperations;
    readonly [key: string]: Json | PostOperations | undefined;
  };
}

/** A command and where it goes. */
export interface CommandSpec<Input, Phases, Item> extends EnumerationSpec<Input, Phases, Item> {
  readonly topic: string;
  readonly cmd: Command;
  /** Where its receipt comes back; derived from `topic` by default. */
  readonly receiptTopic?: string;
}
