/**
 * Parses the `cmd` of a definition or a submission, with a strict check of its post-operations. The command is kept as
 * written, since its hash is over that form; only fields that Rondo fills in are left out.
 */
import { type Json, toStoredText } from "../../std/json.ts";
import { isRejection } from "../../std/rejection.ts";
import { type CommandDefinition, LIMITS } from "../definition/definition.ts";
import { duration, Invalid, integer, object, show, text } from "../definition/parse-primitive.ts";
import { parseReferences } from "./reference.ts";

const TOPIC_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$/;
const PROPS_MAX = 100;
const BROADCASTS_MAX = 100;
const URL_CHARS_MAX = 2_000;
const KEY_CHARS_MAX = 500;

/** The canonical command of `data`; throws `Invalid`. A `cmd_result` is ignored. */
export function parseCommand(data: unknown, path: string): CommandDefinition {
  const fields = object(data, path, ["cmd_type", "cmd_data", "cmd_metadata", "cmd_result"]);
  const stored = toStoredText({ ...fields, cmd_result: null }, { bytesMax: LIMITS.taskBytes, what: path });
  if (isRejection(stored)) throw new Invalid(path, stored.message, stored.hint);
  const kept = JSON.parse(stored) as { cmd_data?: Json; cmd_metadata?: Json };
  const { cmd_hash: _, workflow_hash: __, rondo: ___, ...metadata } = plain(kept.cmd_metadata ?? {}, path);
  if (metadata["cmd_post_op"] !== undefined)
    checkPostOps(metadata["cmd_post_op"], `${path}.cmd_metadata.cmd_post_op`);
  parseReferences(kept.cmd_data ?? {}, `${path}.cmd_data`);
  return {
    cmd_type: text(fields["cmd_type"], `${path}.cmd_type`),
    ...(kept.cmd_data === undefined || isEmpty(kept.cmd_data) ? {} : { cmd_data: kept.cmd_data }),
    ...(isEmpty(metadata) ? {} : { cmd_metadata: metadata }),
  };
}

/** The name of a topic; throws `Invalid`. */
export function parseTopic(data: unknown, path: string): string {
  if (typeof data !== "string" || !TOPIC_PATTERN.test(data) || data.startsWith("amq."))
    throw new Invalid(
      path,
      `${show(data)} is not a topic`,
      'letters, digits, _, . and -, at most 200, and not beginning with "amq."',
    );
  return data;
}

function plain(value: Json, path: string): Readonly<Record<string, Json>> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Invalid(`${path}.cmd_metadata`, "must be an object");
  return value as Readonly<Record<string, Json>>;
}

function isEmpty(value: Json): boolean {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  );
}

function checkPostOps(data: unknown, path: string): void {
  const fields = object(data, path, [
    "cmd_result_enrichment",
    "cmd_result_persistence",
    "cmd_result_broadcasts",
  ]);
  const { cmd_result_enrichment, cmd_result_persistence, cmd_result_broadcasts } = fields;
  if (cmd_result_enrichment !== undefined)
    checkEnrichment(cmd_result_enrichment, `${path}.cmd_result_enrichment`);
  if (cmd_result_persistence !== undefined)
    checkPersistence(cmd_result_persistence, `${path}.cmd_result_persistence`);
  if (cmd_result_broadcasts === undefined) return;
  for (const [i, one] of list(cmd_result_broadcasts, `${path}.cmd_result_broadcasts`, BROADCASTS_MAX))
    checkBroadcast(one, `${path}.cmd_result_broadcasts[${i}]`);
}

function checkEnrichment(data: unknown, path: string): void {
  const { prop_map } = object(data, path, ["prop_map"]);
  for (const [i, entry] of list(prop_map, `${path}.prop_map`, PROPS_MAX)) {
    const at = `${path}.prop_map[${i}]`;
    const { key, val } = object(entry, at, ["key", "val"]);
    text(key, `${at}.key`);
    if (val === undefined) throw new Invalid(`${at}.val`, "is missing", "give the value, null if need be");
  }
}

function checkPersistence(data: unknown, path: string): void {
  const fields = object(data, path, [
    "target_statestore_name",
    "target_statestore_key",
    "target_statestore_partition_key",
    "retry",
    "timeout",
  ]);
  text(fields["target_statestore_name"], `${path}.target_statestore_name`);
  stateKey(fields["target_statestore_key"], `${path}.target_statestore_key`);
  const partition = fields["target_statestore_partition_key"];
  if (partition !== undefined && partition !== null)
    stateKey(partition, `${path}.target_statestore_partition_key`);
  checkPolicy(fields, path);
}

function checkBroadcast(data: unknown, path: string): void {
  const fields = object(data, path, ["url", "static_payload", "await", "retry", "timeout"]);
  const { url } = fields;
  const isUrl = typeof url === "string" && url.length <= URL_CHARS_MAX && URL.canParse(url);
  const parsed = isUrl ? new URL(url) : null;
  if (parsed === null || (parsed.protocol !== "http:" && parsed.protocol !== "https:"))
    throw new Invalid(`${path}.url`, `${show(url)} is not an http or https address`);
  if (parsed.username !== "" || parsed.password !== "")
    throw new Invalid(
      `${path}.url`,
      "holds a user or a password",
      "definitions are shown to others: leave it out",
    );
  if (fields["await"] !== undefined && typeof fields["await"] !== "boolean")
    throw new Invalid(`${path}.await`, "must be true or false");
  checkPolicy(fields, path);
}

function checkPolicy({ retry, timeout }: Record<string, unknown>, path: string): void {
  if (timeout !== undefined) duration(timeout, `${path}.timeout`, 1);
  if (retry === undefined) return;
  const { attempts, backoff, min, max } = object(retry, `${path}.retry`, [
    "attempts",
    "backoff",
    "min",
    "max",
  ]);
  if (attempts !== undefined) integer(attempts, `${path}.retry.attempts`, 1, 250);
  if (backoff !== undefined && backoff !== "exponential" && backoff !== "constant")
    throw new Invalid(`${path}.retry.backoff`, `${show(backoff)} is not known`);
  if (min !== undefined) duration(min, `${path}.retry.min`);
  if (max !== undefined) duration(max, `${path}.retry.max`);
}

function stateKey(data: unknown, path: string): void {
  if (typeof data !== "string" || data === "" || data.length > KEY_CHARS_MAX)
    throw new Invalid(path, `must be a text of 1 to ${KEY_CHARS_MAX} characters`);
}

function list(data: unknown, path: string, max: number): IterableIterator<[number, unknown]> {
  if (!Array.isArray(data)) throw new Invalid(path, "must be a list");
  if (data.length > max) throw new Invalid(path, `${data.length} entries; at most ${max} are allowed`);
  return (data as unknown[]).entries();
}
