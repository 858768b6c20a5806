/** Messages as they come from a broker, to which anybody may write: read, or found broken. */
import type {
  CancelConsumerMessage,
  EnumerateMessage,
  ProcessMessage,
  TaskMessage,
} from "../../protocol/amqp-wire.ts";
import type { CommandMark } from "../../protocol/command-wire.ts";

type Kind = "text" | "number" | "any";

/** The fields of each that this worker cannot do without. */
const ENUMERATE: Readonly<Record<string, Kind>> = {
  workflow_id: "text",
  phase: "text",
  handler: "text",
  task_queue: "text",
  finished_queue: "text",
  attempt: "text",
  token: "text",
};
const PROCESS: Readonly<Record<string, Kind>> = {
  workflow_id: "text",
  task_queue: "text",
  finished_queue: "text",
};
const TASK: Readonly<Record<string, Kind>> = {
  workflow_id: "text",
  phase: "text",
  handler: "text",
  task: "number",
  attempt: "text",
  token: "text",
  finished_queue: "text",
};

/** Null: it is none. */
export function readEnumerate(body: Buffer): EnumerateMessage | null {
  return read<EnumerateMessage>(body, ENUMERATE);
}

/** Null: it is none. */
export function readProcess(body: Buffer): ProcessMessage | null {
  return read<ProcessMessage>(body, PROCESS);
}

/** Null: it is none. */
export function readTask(body: Buffer): TaskMessage | null {
  return read<TaskMessage>(body, TASK);
}

/** Null: it is none. */
export function readCancelConsumer(body: Buffer): CancelConsumerMessage | null {
  return read<CancelConsumerMessage>(body, { task_queue: "text" });
}

/** A command with its type and, if an engine sent it, its mark; null: it is none. */
export function readCommand(body: Buffer): Readonly<Record<string, unknown>> | null {
  return read<Readonly<Record<string, unknown>>>(body, { cmd_type: "text" });
}

/** The mark of a command; null: no engine sent it. */
export function readMark(command: Readonly<Record<string, unknown>>): CommandMark | null {
  const { cmd_metadata: metadata } = command as { cmd_metadata?: { rondo?: Partial<CommandMark> } | null };
  const mark = metadata?.rondo;
  return typeof mark?.attempt === "string" ? (mark as CommandMark) : null;
}

function read<T>(body: Buffer, fields: Readonly<Record<string, Kind>>): T | null {
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return null;
    throw thrown;
  }
  if (typeof value !== "object" || value === null) return null;
  for (const [name, kind] of Object.entries(fields)) {
    const field = (value as Record<string, unknown>)[name];
    if (kind === "text" ? typeof field !== "string" : kind === "number" ? typeof field !== "number" : false)
      return null;
  }
  return value as T;
}
