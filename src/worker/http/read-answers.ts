/**
 * Reads what a server answers to a worker. A server may be another program, an error page of a proxy or a response with
 * damaged bytes, so nothing is taken for granted: an answer of the wrong shape is null, and counts as no answer.
 */
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type {
  Claimed,
  EventsAnswer,
  HeartbeatAnswer,
  Registered,
  WorkItem,
} from "../../protocol/worker-wire.ts";

type Fields = Readonly<Record<string, unknown>>;

/** More nodes than this are not believed. */
const NODES_MAX = 1_000;
/** More finished runs than this are not believed: each takes a place in a list. */
const RUNS_MAX = 100_000;
const TEXTS = ["token", "execution", "workflow", "project", "phase", "handler", "use"];
const DO = ["enumerate", "process", "next", "returns", "command", "script"];

export function readRegistered(value: unknown): Registered | null {
  if (!isFields(value)) return null;
  const { worker, heartbeatMs, leaseMs } = value;
  if (typeof worker !== "string" || worker === "") return null;
  if (!isPositive(heartbeatMs) || !isPositive(leaseMs)) return null;
  const nodes = readNodes(value["nodes"]);
  return nodes === null ? null : { worker, heartbeatMs, leaseMs, ...(nodes === undefined ? {} : { nodes }) };
}

export function readClaimed(value: unknown): Claimed | null {
  if (!isFields(value)) return null;
  const { work, inputs, phases, cancel, lost, drain } = value;
  if (!Array.isArray(work) || !work.every(isWorkItem)) return null;
  if (!isFields(inputs) || !isFields(phases) || !Object.values(phases).every(isPhaseCounts)) return null;
  if (!isAttempts(cancel) || !isAttempts(lost)) return null;
  const nodes = readNodes(value["nodes"]);
  if (nodes === null) return null;
  return {
    ...{ work, inputs, cancel, lost, phases: phases as Claimed["phases"] },
    ...(drain === true ? { drain } : {}),
    ...(nodes === undefined ? {} : { nodes }),
  };
}

export function readEventsAnswer(value: unknown): EventsAnswer | null {
  if (!isFields(value)) return null;
  const { stored, verdicts } = value;
  const isRead =
    isFields(stored) &&
    isFields(verdicts) &&
    Object.values(stored).every((n) => typeof n === "number") &&
    Object.values(verdicts).every((verdict) => typeof verdict === "string");
  return isRead ? (value as unknown as EventsAnswer) : null;
}

export function readHeartbeatAnswer(value: unknown): HeartbeatAnswer | null {
  const isRead = isFields(value) && Object.values(value).every((word) => typeof word === "string");
  return isRead ? (value as HeartbeatAnswer) : null;
}

/** Undefined: none are named; null: it is no list of URLs. */
function readNodes(nodes: unknown): readonly string[] | undefined | null {
  if (nodes === undefined || nodes === null) return undefined;
  if (!Array.isArray(nodes) || nodes.length > NODES_MAX) return null;
  return nodes.every(isUrl) ? [...new Set<string>(nodes)] : null;
}

function isUrl(url: unknown): url is string {
  if (typeof url !== "string" || !URL.canParse(url)) return false;
  return /^https?:$/.test(new URL(url).protocol);
}

function isWorkItem(value: unknown): value is WorkItem {
  if (!isFields(value)) return false;
  const { attempt, do: kind, version, traceparent, timeoutMs, heartbeatMs, visit, batch, finished } = value;
  const { steps, runs, resume, phases } = value;
  return (
    isAttempt(attempt) &&
    DO.includes(kind as string) &&
    TEXTS.every((name) => typeof value[name] === "string") &&
    (version === null || typeof version === "string") &&
    isOptional(traceparent, (text) => typeof text === "string") &&
    isPositive(heartbeatMs) &&
    (timeoutMs === null || isPositive(timeoutMs)) &&
    [visit, batch].every((count) => isCount(count) && count > 0) &&
    isOptional(finished, (count) => isCount(count) && count <= RUNS_MAX) &&
    isOptional(steps, (list) => Array.isArray(list) && list.every(isStep)) &&
    isOptional(runs, (list) => Array.isArray(list) && list.every(isRun)) &&
    isOptional(resume, (at) => isFields(at) && isCount(at["count"]) && Number.isInteger(at["checksum"])) &&
    isOptional(phases, isPhaseCounts)
  );
}

function isStep(step: unknown): boolean {
  if (!isFields(step) || typeof step["name"] !== "string") return false;
  return isOptional(step["until"], (until) => typeof until === "number");
}

function isRun(run: unknown): boolean {
  if (!isFields(run)) return false;
  const { name, expression, timeoutMs } = run;
  return (
    typeof name === "string" &&
    typeof expression === "string" &&
    (timeoutMs === null || isPositive(timeoutMs))
  );
}

function isPhaseCounts(list: unknown): boolean {
  return Array.isArray(list) && list.every(isPhaseCount);
}

function isPhaseCount(value: unknown): boolean {
  if (!isFields(value)) return false;
  const { phase, visit, handlers } = value;
  const isHandler = (one: unknown): boolean => isFields(one) && typeof one["name"] === "string";
  return typeof phase === "string" && isCount(visit) && Array.isArray(handlers) && handlers.every(isHandler);
}

function isAttempts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(isAttempt);
}

function isAttempt(value: unknown): value is string {
  return typeof value === "string" && decodeAttempt(value) !== null;
}

function isOptional(value: unknown, is: (value: unknown) => boolean): boolean {
  return value === undefined || is(value);
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0;
}

function isPositive(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value > 0;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
