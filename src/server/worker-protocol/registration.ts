/** What a worker says about itself when it registers, checked; its own address is where it came from. */
import { isIP } from "node:net";
import { reservedTopic, topicUse } from "../../kernel/command/topic-rules.ts";
import { USE_PATTERN } from "../../kernel/definition/definition.ts";
import { SCRIPT_USE, type Serves, UNKNOWN_WORKER } from "../../protocol/work.ts";
import { type Rejection, reject } from "../../std/rejection.ts";

/** Ids of remote workers. */
export const WORKER_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_~.-]{0,99}$/;
/** Ids that begin like this are of workers inside engine processes. */
const RESERVED = "local~";
const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$/;
const TOPIC_PATTERN = /^[A-Za-z0-9_.:-]{1,200}$/;
const HANDLERS_MAX = 10_000;
/** The most tasks that a worker can have at a time. */
export const CAPACITY_MAX = 100_000;
const FIELDS = ["name", "worker", "handlers", "topics", "capacity", "url", "version"];

export interface CheckedRegistration {
  readonly name: string;
  readonly worker: string | null;
  readonly serves: readonly Serves[];
  readonly topics: readonly string[];
  readonly capacity: number;
  readonly url: string | null;
  readonly version: string | null;
  /** It gets tasks of this project only; null: of all. */
  readonly project: string | null;
}

/**
 * A registration as it came; `peer` is the address it came from, null for a unix socket, and `project` the one that its
 * token is bound to. `reserved` says which topics nobody may use.
 */
export function checkRegistration(
  body: unknown,
  peer: string | null,
  project: string | null = null,
  reserved: (topic: string) => Rejection | null = reservedTopic,
): CheckedRegistration | Rejection {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    return invalid("body", "must be an object");
  const given = body as Record<string, unknown>;
  for (const field in given)
    if (!FIELDS.includes(field))
      return reject("unknown_field", `${field}: a registration has no such field`, { path: field });
  const { name, worker = null, topics = [], capacity, url = null, version = null } = given;
  if (typeof name !== "string" || !NAME_PATTERN.test(name))
    return invalid("name", "must be 1 to 60 of A-Z a-z 0-9 _ . -");
  if (worker !== null && (typeof worker !== "string" || !WORKER_PATTERN.test(worker)))
    return invalid("worker", "is not a worker's id");
  if (typeof worker === "string" && worker.startsWith(RESERVED))
    return invalid("worker", `must not begin with "${RESERVED}", which is for workers inside a server`);
  if (worker === UNKNOWN_WORKER) return invalid("worker", `must not be "${UNKNOWN_WORKER}"`);
  if (!Number.isInteger(capacity) || (capacity as number) < 1 || (capacity as number) > CAPACITY_MAX)
    return invalid("capacity", `must be a number from 1 to ${CAPACITY_MAX}`);
  if (
    !Array.isArray(topics) ||
    !topics.every((topic) => typeof topic === "string" && TOPIC_PATTERN.test(topic))
  )
    return invalid("topics", "must be a list of names");
  for (const topic of topics as readonly string[]) {
    const refusal = reserved(topic);
    if (refusal !== null) return { ...refusal, message: `topics: ${refusal.message}`, path: "topics" };
  }
  if (version !== null && (typeof version !== "string" || version.length > 100))
    return invalid("version", "must be a short text");
  const serves = checkHandlers(given["handlers"]);
  if ("kind" in serves) return serves;
  const wrong = url === null ? null : checkAddress(url, peer);
  if (wrong !== null) return wrong;
  return {
    name,
    worker,
    serves: [...serves, ...(topics as string[]).map((topic) => ({ use: topicUse(topic) }))],
    topics: topics as string[],
    capacity: capacity as number,
    url: url === null ? null : (url as string).replace(/\/+$/, ""),
    version,
    project,
  };
}

function checkHandlers(handlers: unknown): readonly Serves[] | Rejection {
  if (!Array.isArray(handlers) || handlers.length > HANDLERS_MAX)
    return invalid("handlers", `must be a list of at most ${HANDLERS_MAX} handlers`);
  const serves: Serves[] = [];
  for (const [i, handler] of handlers.entries()) {
    const at = `handlers[${i}]`;
    if (typeof handler !== "object" || handler === null) return invalid(at, "must be an object");
    const { use, version, enumerates, ...more } = handler as Record<string, unknown>;
    const [unknown] = Object.keys(more);
    if (unknown !== undefined)
      return reject("unknown_field", `${at}.${unknown}: a handler has no such field`, {
        path: `${at}.${unknown}`,
      });
    if (typeof use !== "string" || (use !== SCRIPT_USE && !USE_PATTERN.test(use)))
      return invalid(`${at}.use`, "is not a handler's name");
    if (version !== undefined && (typeof version !== "string" || version === "" || version.length > 100))
      return invalid(`${at}.version`, "is not a version");
    if (enumerates !== undefined && typeof enumerates !== "boolean")
      return invalid(`${at}.enumerates`, "must be true or false");
    serves.push({
      use,
      ...(version === undefined ? {} : { version }),
      ...(enumerates === undefined ? {} : { enumerates }),
    });
  }
  return serves;
}

/** A worker is asked only at its own address: nobody can make the server call somebody else. */
function checkAddress(url: unknown, peer: string | null): Rejection | null {
  const parsed = typeof url === "string" && url.length <= 300 && URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || (parsed.protocol !== "http:" && parsed.protocol !== "https:"))
    return invalid("url", "must be an http or https address");
  if (parsed.username !== "" || parsed.password !== "" || parsed.search !== "" || parsed.hash !== "")
    return invalid("url", "must be an address without user, query and fragment");
  const host = plainAddress(parsed.hostname);
  const from = peer === null ? null : plainAddress(peer);
  const isLocal = isLoopback(host) && (from === null || isLoopback(from));
  if (isLocal || (isIP(host) !== 0 && host === from)) return null;
  const asked = isLoopback(host)
    ? `url: ${host} would be the server itself, and this request came from ${from}`
    : `url: ${host} is not the address that this request came from`;
  return reject("invalid_input", asked, {
    path: "url",
    hint: "give the address of the worker itself as a number, or leave it out",
  });
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Without brackets, and IPv4 as such where it came mapped into IPv6. */
function plainAddress(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/^::ffff:(?=\d+\.)/, "");
}

function invalid(path: string, why: string): Rejection {
  return reject("invalid_input", `${path}: ${why}`, { path });
}
