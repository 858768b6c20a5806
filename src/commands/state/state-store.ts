/**
 * The port of state stores: where results of commands are kept under a key. Adapters: embedded, postgres, redis, http.
 *
 * Every write has a version, and only a newer one replaces what is there: a slow old write never covers a newer one, and
 * a repeated one changes nothing. Versions are ordered by the time of the receipt by the store's clock, then by the id of
 * the execution, then by the event: within one execution that is the order of its journal, and two writes of different
 * executions have one order, which is the same wherever it is looked at.
 */
import { decodeName, encodeName } from "../../kernel/definition/names.ts";

/** Where a value is. */
export interface StatePlace {
  readonly store: string;
  readonly key: string;
  /** Null: none was given. */
  readonly partition: string | null;
}

/** Which event wrote a value. */
export interface StateVersion {
  /** The time of the event, in milliseconds. */
  readonly at: number;
  readonly execution: string;
  readonly seq: number;
}

export interface StateEntry {
  /** JSON text. */
  readonly value: string;
  /** Null: it was not written by Rondo. */
  readonly version: StateVersion | null;
  /** The project that it belongs to; null: it was not written by Rondo. */
  readonly project: string | null;
}

/** An entry that is to be written. */
export interface NewEntry extends StateEntry {
  readonly version: StateVersion;
  readonly project: string;
}

/** `same`, `newer`: this very value or a newer one is there. `foreign`: it belongs to another project. Nothing was written. */
export type PutVerdict = "stored" | "same" | "newer" | "foreign";

/** How long one call may take. */
export interface StateCall {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A store of values. Faults of the world are thrown. */
export interface StateStore {
  put(place: StatePlace, entry: NewEntry, call: StateCall): Promise<PutVerdict>;
  get(place: StatePlace, call: StateCall): Promise<StateEntry | null>;
  close(): Promise<void>;
}

const AT_DIGITS = 15;
const SEQ_DIGITS = 12;

/** A version as text, whose bytewise order is the order of versions. */
export function versionText({ at, execution, seq }: StateVersion): string {
  return `${String(at).padStart(AT_DIGITS, "0")}/${encodeName(execution)}/${String(seq).padStart(SEQ_DIGITS, "0")}`;
}

/** The version that a text is; null: it is none. */
export function parseVersion(text: unknown): StateVersion | null {
  const found = typeof text === "string" ? /^(\d{15})\/([^/]+)\/(\d{12})$/.exec(text) : null;
  if (found === null) return null;
  const [, at, name = "", seq] = found;
  const execution = decodeName(name);
  return execution === null ? null : { at: Number(at), execution, seq: Number(seq) };
}

/** What is to become of a write, given what is there. */
export function compareEntries(entry: NewEntry, there: StateEntry | null): PutVerdict {
  if (there === null) return "stored";
  if (there.project !== null && there.project !== entry.project) return "foreign";
  if (there.version === null) return "stored";
  const [mine, theirs] = [versionText(entry.version), versionText(there.version)];
  return mine === theirs ? "same" : mine > theirs ? "stored" : "newer";
}
