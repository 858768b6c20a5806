/**
 * Requests over the broker: messages that start executions and change them (docs/protocol.md). The server carries them out
 * (`RequestPort`); the bridge reads them and publishes the answers.
 */
import {
  type Decode,
  type Decoded,
  decode,
  type Fields,
  flag,
  isObject,
  object,
  oneOf,
  optional,
  secret,
} from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { invalid, string } from "./read-body.ts";

/** The modes in which a server accepts requests over the broker. */
export const BROKER_REQUEST_MODES = ["trusted", "token", "off"] as const;

/**
 * `trusted`: everyone who may publish to the queues is an operator of the deployment. `token`: each message needs the token
 * of an operator. `off`: the queues are not consumed.
 */
export type BrokerRequestMode = (typeof BROKER_REQUEST_MODES)[number];

/** Changes of an execution; `signal` sends a signal. */
export const REQUEST_ACTIONS = ["signal", "pause", "resume", "cancel", "retry"] as const;

/** A message in `<p>.workflow.created`. */
export interface StartRequest {
  readonly kind: "start";
  /** The id of the execution; undefined if it is derived from `key`. */
  readonly id: string | undefined;
  readonly key: string | null;
  /** The name of the workflow. */
  readonly workflow: string;
  readonly input: unknown;
  /** The options of the start, as in the HTTP API. */
  readonly options: Fields;
}

/** A message in `<p>.workflow.control`. */
export interface ControlRequest {
  readonly kind: "control";
  /** The id of the execution; undefined if its hashes identify it. */
  readonly id: string | undefined;
  /** The hash of a submitted workflow, and of one of its commands. */
  readonly workflowHash: string | undefined;
  readonly cmdHash: string | undefined;
  /** The id of the message: a repeat changes nothing. */
  readonly key: string;
  readonly action: (typeof REQUEST_ACTIONS)[number];
  /** The project whose executions may be changed; undefined for any project. */
  readonly project: string | undefined;
  readonly by: string | undefined;
  readonly reason: string | undefined;
  /** The name and the payload of a signal. */
  readonly signal: string | undefined;
  readonly data: unknown;
  /** For a signal: how to start the execution if it does not exist. */
  readonly start: SignalStart | undefined;
  /** For a cancel: whether to skip the rest of the clean-up. */
  readonly force: boolean;
}

/** The start of an execution that gets a signal. */
export interface SignalStart {
  /** The name of the workflow. */
  readonly workflow: string;
  readonly input: unknown;
  /** The options of the start, as in the HTTP API. */
  readonly options: Fields;
}

export type BrokerRequest = StartRequest | ControlRequest;

/** The sender of a message. */
export interface RequestSender {
  /** The value of the message's header `token`. */
  readonly token: string | null;
  /** The message's property `user_id`, which the broker has checked. */
  readonly user: string | null;
}

/** The answer to a request that was carried out. */
export interface RequestAnswer {
  readonly workflow_id: string;
  /** The status of the execution after the request. */
  readonly status: string;
  /** For a start, or a signal with a start: whether the execution existed before. */
  readonly existed?: boolean;
  /** For a signal: `delivered` if the execution was waiting for it, `kept` if it is stored for a later wait. */
  readonly state?: "delivered" | "kept";
}

/** Carries out requests. Resolves after the commit. */
export interface RequestPort {
  handle(request: BrokerRequest, sender: RequestSender): Promise<RequestAnswer | Rejection>;
}

const tags = secret<Readonly<Record<string, string>>>(
  "an object of texts",
  (value) => isObject(value) && Object.values(value).every((tag) => typeof tag === "string"),
);
const time = secret<string | number>(
  "a time: ISO 8601, such as 2026-11-15T06:00:00Z, or milliseconds since 1970",
  (value) => (typeof value === "string" ? !Number.isNaN(Date.parse(value)) : Number.isFinite(value)),
);
const hash = secret<string>("a hash", (value) => typeof value === "string" && /^[\da-f]{64}$/.test(value));
const anyJson: Decode<unknown> = (value) => value;

const START = object(
  {
    workflow_id: optional(string),
    workflow: optional(string),
    input: optional(anyJson),
    project: optional(string),
    tags: optional(tags),
    start_at: optional(time),
    deadline: optional(time),
  },
  { what: "workflow.created" },
);

const SIGNAL_START = object(
  {
    workflow: string,
    input: optional(anyJson),
    tags: optional(tags),
    start_at: optional(time),
    deadline: optional(time),
    if_exists: optional(oneOf(["signal", "startNewWhenDone", "new"] as const)),
  },
  { what: "start" },
);

const CONTROL = object(
  {
    workflow_id: optional(string),
    workflow_hash: optional(hash),
    cmd_hash: optional(hash),
    action: oneOf(REQUEST_ACTIONS),
    id: optional(string),
    project: optional(string),
    by: optional(string),
    reason: optional(string),
    signal: optional(string),
    data: optional(anyJson),
    start: optional(SIGNAL_START),
    force: optional(flag),
  },
  { what: "workflow.control" },
);

/** Reads a start. `messageId` is the property `message_id`. */
export function readStart(fields: Fields, messageId: string | null): StartRequest | Rejection {
  const read = decode(START, fields);
  if (isRejection(read)) return read;
  const { workflow_id: id, workflow = id, input, start_at: startAt, ...rest } = read;
  if (workflow === undefined) return invalid("`workflow` is missing: it names the workflow to start");
  if (id === undefined && messageId === null)
    return invalid(
      "the message has neither `workflow_id` nor `message_id`: a redelivery would start a second execution",
    );
  const { project, tags: labels, deadline } = rest;
  const options = defined({ project, tags: labels, startAt, deadline });
  return { kind: "start", id, key: messageId, workflow, input, options };
}

/** Reads a change of an execution. `messageId` is the property `message_id`. */
export function readControl(fields: Fields, messageId: string | null): ControlRequest | Rejection {
  const read = decode(CONTROL, fields);
  if (isRejection(read)) return read;
  const { workflow_id: id, workflow_hash: workflowHash, cmd_hash: cmdHash, id: key = messageId } = read;
  const { action, project, by, reason, signal, data, force = false } = read;
  if ((id === undefined) === (workflowHash === undefined))
    return invalid("the message must have exactly one of `workflow_id` and `workflow_hash`");
  if (cmdHash !== undefined && workflowHash === undefined)
    return invalid("`cmd_hash` is given without `workflow_hash`, the hash of its workflow");
  if (key === null)
    return invalid("the message has neither `id` nor `message_id`: a redelivery would be a second request");
  if (action === "signal" && signal === undefined)
    return invalid("`signal` is missing: it is the name of the signal");
  if (action !== "signal" && (signal !== undefined || data !== undefined))
    return invalid(`\`signal\` and \`data\` belong to the action "signal"`);
  if (read.start !== undefined && (action !== "signal" || id === undefined))
    return invalid('`start` belongs to the action "signal" with a `workflow_id`');
  if (force && action !== "cancel") return invalid('`force` belongs to the action "cancel"');
  const start = read.start === undefined ? undefined : signalStart(read.start, project);
  const whom = { id, workflowHash, cmdHash, key, project, by, reason };
  return { kind: "control", ...whom, action, signal, data, start, force };
}

function signalStart(
  {
    workflow,
    input,
    tags: labels,
    start_at: startAt,
    deadline,
    if_exists: ifExists,
  }: Decoded<typeof SIGNAL_START>,
  project: string | undefined,
): SignalStart {
  return { workflow, input, options: defined({ project, tags: labels, startAt, deadline, ifExists }) };
}
