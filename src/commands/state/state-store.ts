/**
 * The port of state stores, which keep results of commands under a key. Adapters: embedded, postgres, redis, http.
 * Every write has a version, and only a newer version replaces a value. So a slow old write never replaces a newer value, and a
 * repeated write changes nothing. Versions are ordered by the time of the receipt (the store's clock), then by the id of the
 * execution, then by the event. Within one execution that is the order of its journal, and two writes of different executions
 * have the same order everywhere.
 */
import { decodeName, encodeName } from "../../kernel/definition/names.ts";

export interface StatePlace {
  readonly store: string;
  readonly key: string;
  /** The partition of the key; null if none was given. */
  readonly partition: string | null;
}

/** The event that wrote a value. */
export interface StateVersion {
  /** The time of the event, in milliseconds. */
  readonly at: number;
  readonly execution: string;
  readonly seq: number;
}

export interface StateEntry {
  /** The stored value as JSON text. */
  readonly value: string;
  /** The version of the value; null if Rondo did not write the value. */
  readonly version: StateVersion | null;
  /** The project of the value; null if Rondo did not write the value. */
  readonly project: string | null;
}

export interface NewEntry extends StateEntry {
  readonly version: StateVersion;
  readonly project: string;
}

/**
 * The result of a write. With `same`, `newer` or `foreign` nothing was written: the stored value has the same version, a newer one, or
 * belongs to another project.
 */
export type PutVerdict = "stored" | "same" | "newer" | "foreign";

/** The abort signal and the time limit of one call. */
export interface StateCall {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A store of values. It throws on faults of the network or the server. */
export interface StateStore {
  put(place: StatePlace, entry: NewEntry, call: StateCall): Promise<PutVerdict>;
  get(place: StatePlace, call: StateCall): Promise<StateEntry | null>;
  close(): Promise<void>;
}

const AT_DIGITS = 15;
const SEQ_DIGITS = 12;

/** Encodes a version as text. The bytewise order of these texts is the order of versions. */
export function versionText({ at, execution, seq }: StateVersion): string {
  return `${String(at).padStart(AT_DIGITS, "0")}/${encodeName(execution)}/${String(seq).padStart(SEQ_DIGITS, "0")}`;
}

/** Parses the text of a version; null if the text is invalid. */
export function parseVersion(text: unknown): StateVersion | null {
  const found = typeof text === "string" ? /^(\d{15})\/([^/]+)\/(\d{12})$/.exec(text) : null;
  if (found === null) return null;
  const [, at, name = "", seq] = found;
  const execution = decodeName(name);
  return execution === null ? null : { at: Number(at), execution, seq: Number(seq) };
}

/** Compares a new entry with the stored one, and decides whether it may be written. */
export function compareEntries(entry: NewEntry, there: StateEntry | null): PutVerdict {
  if (there === null) return "stored";
  if (there.project !== null && there.project !== entry.project) return "foreign";
  if (there.version === null) return "stored";
  const [mine, theirs] = [versionText(entry.version), versionText(there.version)];
  return mine === theirs ? "same" : mine > theirs ? "stored" : "newer";
}
