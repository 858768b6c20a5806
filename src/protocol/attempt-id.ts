/**
 * Ids and tokens of attempts. An id joins all parts that identify the attempt by dots (the execution's id is percent-encoded
 * and so has none), so any owner can decode it. A token is an HMAC of the id with the store's key, so any owner can check it.
 */

import { COMPENSATION } from "../kernel/definition/definition.ts";
import { decodeName, encodeName } from "../kernel/definition/names.ts";
import { HmacKey } from "../std/hash.ts";
import type { Beat, GrantItem, ReportedAttempt, ReportPlace } from "./work.ts";

const EXECUTION = "((?:[A-Za-z0-9_:~-]|%[0-9A-F]{2})+)";
const NAME = "([A-Za-z][A-Za-z0-9_-]{0,39})";
const PHASE = `([A-Za-z][A-Za-z0-9_-]{0,39}(?:${COMPENSATION})?)`;
const COUNT = "(0|[1-9][0-9]{0,14})";
const PATTERN = new RegExp(
  `^${[EXECUTION, PHASE, COUNT, NAME, COUNT, "(-1|0|[1-9][0-9]{0,14})", COUNT, COUNT, COUNT].join("\\.")}$`,
);

/**
 * The most characters of an attempt's id. No id is this long: an execution's id has 200 bytes at most, all of them encoded, and
 * the other parts are short.
 */
export const ATTEMPT_ID_CHARS_MAX = 1_000;

/** The hint for a token that does not match the id. */
export const ATTEMPT_HINT =
  "send the token that came with this attempt; percent-encode its id in the URL, so that each % in it is %25";

/** Makes the data that identify the attempt of a granted item. */
export function reportedAttempt(place: ReportPlace, item: GrantItem): ReportedAttempt {
  const { execution, phase, visit, handler, round, epoch } = place;
  const { number: task, attempt, claim } = item;
  return { execution, phase, visit, handler, round, epoch, task, attempt, claim };
}

/** Groups attempts into heartbeats, by handler of a visit and epoch. */
export function beatsOf(attempts: Iterable<ReportedAttempt>): Beat[] {
  const byPlace = new Map<string, Beat & { attempts: Beat["attempts"][number][] }>();
  for (const { task, attempt, claim, ...place } of attempts) {
    const key = `${attemptPrefix(place)}${place.epoch}`;
    const beat = byPlace.get(key) ?? { ...place, attempts: [] };
    beat.attempts.push({ task, attempt, claim });
    byPlace.set(key, beat);
  }
  return [...byPlace.values()];
}

/** Encodes an attempt as its id. `task` is -1 for the enumeration. */
export function encodeAttempt(at: ReportedAttempt): string {
  return `${attemptPrefix(at)}${at.task}.${at.attempt}.${at.claim}.${at.epoch}`;
}

/** The common prefix of the ids of all attempts of one handler of a visit. */
export function attemptPrefix({ execution, phase, visit, handler, round }: ReportPlace): string {
  return `${encodeName(execution)}.${phase}.${visit}.${handler}.${round}.`;
}

/** Decodes the id of an attempt; null if it is invalid. */
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

let lastKey = new HmacKey("");

/** Computes the token of an attempt. A process has one key, or a few in tests, so only the last one is kept prepared. */
export function signAttempt(key: string, id: string): string {
  if (lastKey.text !== key) lastKey = new HmacKey(key);
  return lastKey.sign(id);
}

/** Whether the token belongs to the attempt, compared in constant time. */
export function checkToken(key: string, id: string, token: string): boolean {
  return isSameToken(signAttempt(key, id), token);
}

/** Whether two tokens are equal, compared in constant time. */
export function isSameToken(expected: string, given: string): boolean {
  let difference = expected.length ^ given.length;
  for (let i = 0; i < expected.length; i++) difference |= expected.charCodeAt(i) ^ (given.charCodeAt(i) | 0);
  return difference === 0;
}
