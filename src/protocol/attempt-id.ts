/**
 * The id of an attempt as it goes over wires: everything that tells it apart, joined by dots (the execution's id
 * percent-encoded, so that it has none), so that any owner can read it; and its token, an HMAC of that id with the store's key, so that any owner can check it.
 */
import { createHmac } from "node:crypto";
import { decodeName, encodeName } from "../kernel/definition/names.ts";
import type { ReportedAttempt, ReportPlace } from "./work.ts";

const EXECUTION = "((?:[A-Za-z0-9_:~-]|%[0-9A-F]{2})+)";
const NAME = "([A-Za-z][A-Za-z0-9_-]{0,39})";
const COUNT = "(0|[1-9][0-9]{0,14})";
const PATTERN = new RegExp(
  `^${[EXECUTION, NAME, COUNT, NAME, COUNT, "(-1|0|[1-9][0-9]{0,14})", COUNT, COUNT, COUNT].join("\\.")}$`,
);

/** Longer than any id: one of 200 bytes, all of them encoded, and the rest. */
export const ATTEMPT_ID_CHARS_MAX = 1_000;

/** For callers whose token does not fit the id. */
export const ATTEMPT_HINT =
  "send the token that came with this attempt; percent-encode its id in the URL, so that each % in it is %25";

/** The id as text. `task` -1 is the enumeration. */
export function encodeAttempt(at: ReportedAttempt): string {
  return `${attemptPrefix(at)}${at.task}.${at.attempt}.${at.claim}.${at.epoch}`;
}

/** What the ids of all attempts at one place begin with. */
export function attemptPrefix({ execution, phase, visit, handler, round }: ReportPlace): string {
  return `${encodeName(execution)}.${phase}.${visit}.${handler}.${round}.`;
}

/** What an id says; null: it is none. */
export function decodeAttempt(id: string): ReportedAttempt | null {
  const parts = id.length > ATTEMPT_ID_CHARS_MAX ? null : PATTERN.exec(id);
  const execution = parts === null ? null : decodeName(parts[1] as string);
  if (parts === null || execution === null) return null;
  return {
    execution,
    phase: parts[2] as string,
    visit: Number(parts[3]),
    handler: parts[4] as string,
    round: Number(parts[5]),
    task: Number(parts[6]),
    attempt: Number(parts[7]),
    claim: Number(parts[8]),
    epoch: Number(parts[9]),
  };
}

/** The token of an attempt. */
export function signAttempt(key: string, id: string): string {
  return createHmac("sha256", key).update(id).digest("base64url");
}

/** Whether the token is the attempt's; takes as long for a wrong one as for the right one. */
export function checkToken(key: string, id: string, token: string): boolean {
  return isSameToken(signAttempt(key, id), token);
}

/** Whether two tokens are the same, without telling by its time where they differ. */
export function isSameToken(expected: string, given: string): boolean {
  let difference = expected.length ^ given.length;
  for (let i = 0; i < expected.length; i++) difference |= expected.charCodeAt(i) ^ (given.charCodeAt(i) | 0);
  return difference === 0;
}
