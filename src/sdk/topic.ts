/** `topic()`: code that runs the commands of a topic. */
import { parseTopic } from "../kernel/command/parse-command.ts";
import { reservedTopic, topicUse } from "../kernel/command/topic-rules.ts";
import { decodeDefinition } from "../kernel/definition/parse-primitive.ts";
import type { Json } from "../std/json.ts";
import { RondoError, reject, unwrap } from "../std/rejection.ts";
import type { HandlerCode, HostedTopic, Log, ProcessContext } from "../worker/handler-code.ts";

/** The context of a topic's code. */
export interface CommandContext<Data = unknown> {
  /** The command, with references replaced by the earlier results that they name. */
  readonly cmd: {
    readonly cmd_type: string;
    readonly cmd_data: Data;
    readonly cmd_metadata: Readonly<Record<string, Json>>;
  };
  /** The id of the execution. */
  readonly execution: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The unique id of this attempt. */
  readonly attemptId: string;
  /** The time in milliseconds since 1970; the virtual time under `testRondo`. */
  readonly now: () => number;
  /** A key that is the same for all attempts at the command. */
  readonly idempotencyKey: string;
  /** Writes log lines that are stored with the attempt. */
  readonly log: Log;
  /** Reports the progress of the command. */
  progress(done: number, total?: number): void;
  /** Aborted when the attempt is cancelled, exceeds its time limit, or loses its lease. */
  readonly signal: AbortSignal;
  /** Redacts this value in all logs and errors of this worker; returns the value. */
  readonly secret: (value: string) => string;
}

/**
 * Serves a topic with a function. The value that the function returns is the result of the command; an error that it throws is
 * the command's error.
 *
 * @throws RondoError if the name is not one of a topic, or is reserved
 * @example rondo.serve(topic<{ to: string }>("EMAIL_CMD", ({ cmd }) => send(cmd.cmd_data.to)));
 */
export function topic<Data = unknown>(
  name: string,
  run: (context: CommandContext<Data>) => unknown,
): HostedTopic {
  unwrap(decodeDefinition(parseTopic, name, "topic"));
  const reserved = reservedTopic(name);
  if (reserved !== null) throw new RondoError(reserved);
  if (typeof run !== "function")
    throw new RondoError(
      reject("invalid_input", `topic "${name}": the second argument is not a function`, { path: "run" }),
    );
  const code: HandlerCode = {
    use: topicUse(name),
    process: (context) => run(commandContext<Data>(context)),
  };
  return Object.freeze({ topic: name, name: topicUse(name), handlers: [code] });
}

function commandContext<Data>(context: ProcessContext): CommandContext<Data> {
  return {
    cmd: context.task as CommandContext<Data>["cmd"],
    execution: context.execution,
    attempt: context.attempt,
    attemptId: context.attemptId,
    now: context.now,
    idempotencyKey: context.idempotencyKey,
    // The log object is created on first use.
    get log() {
      return context.log;
    },
    get signal() {
      return context.signal;
    },
    progress: (done, total) => context.progress(done, total),
    secret: (value) => context.secret(value),
  };
}
