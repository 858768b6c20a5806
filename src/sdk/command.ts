/** The types of commands that a program writes in code. The fields have the same names as in the messages on command topics. */
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type { Compensation, EnumerationSpec, RetryOptions, TaskOf } from "./handler.ts";

/** Options of a post-operation. */
interface PostOpOptions {
  /**
   * When a failed post-operation is tried again.
   *
   * @default 10 attempts with exponential back-off
   */
  readonly retry?: Omit<RetryOptions, "crashes">;
  /** @default "30s" */
  readonly timeout?: Duration;
}

/** The post-operations on the result of a command. They are done in the order of these fields. */
export interface PostOperations {
  /** Adds properties to the result of the command, before the result is stored or sent anywhere. */
  readonly cmd_result_enrichment?: {
    readonly prop_map: readonly { readonly key: string; readonly val: Json }[];
  };
  /** Writes the result to a state store, before the next step begins. */
  readonly cmd_result_persistence?: PostOpOptions & {
    readonly target_statestore_name: string;
    readonly target_statestore_key: string;
    readonly target_statestore_partition_key?: string | null;
  };
  /** Sends the result to addresses by HTTP. The workflow goes on meanwhile, unless `await` is set. */
  readonly cmd_result_broadcasts?: readonly (PostOpOptions & {
    readonly url: string;
    readonly static_payload?: Json;
    readonly await?: boolean;
  })[];
}

/** A command as data. */
export interface Command {
  /** The type of the command. */
  readonly cmd_type: string;
  /**
   * The data of the command. It may have references: `${steps[0].cmd_result.a}`, `${input.a}`, `${task.a}`.
   */
  readonly cmd_data?: Json;
  /** Metadata of the command. The field `cmd_post_op` has the post-operations on its result. */
  readonly cmd_metadata?: {
    readonly cmd_post_op?: PostOperations;
    readonly [key: string]: Json | PostOperations | undefined;
  };
}

/** A command and its topic. */
export interface CommandSpec<Input, Phases, Item>
  extends EnumerationSpec<Input, Phases, Item>,
    Compensation<TaskOf<Item, Input>, Json, Input, Phases> {
  /** The topic that the command is sent to. */
  readonly topic: string;
  /** The command. */
  readonly cmd: Command;
  /**
   * The topic from which the engine gets the receipt of the command.
   *
   * @default derived from `topic`
   */
  readonly receiptTopic?: string;
}
