/** Checks the registration of a worker. The address of the worker's status API must be the one that the request came from. */
import { isIP } from "node:net";
import { reservedTopic, topicUse } from "../../kernel/command/topic-rules.ts";
import { USE_PATTERN } from "../../kernel/definition/definition.ts";
import { SCRIPT_USE, type Serves, UNKNOWN_WORKER } from "../../protocol/work.ts";
import {
  anything,
  checked,
  type Decode,
  decode,
  flag,
  integer,
  invalid,
  listOf,
  object,
  optional,
  orElse,
  orNull,
  text,
  where,
} from "../../std/decode.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";

export const WORKER_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_~.-]{0,99}$/;
/** The prefix of worker ids that only workers inside engine processes may have. */
const RESERVED = "local~";
const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$/;
const TOPIC_PATTERN = /^[A-Za-z0-9_.:-]{1,200}$/;
const HANDLERS_MAX = 10_000;
/** The most tasks of a worker at a time. */
export const CAPACITY_MAX = 100_000;
const VERSION_CHARS_MAX = 100;

const workerId = checked(
  text({ pattern: WORKER_PATTERN, what: "a worker's id" }),
  (worker): Rejection | null => {
    if (worker.startsWith(RESERVED))
      return invalid("", `must not begin with "${RESERVED}", which is for workers inside a server`);
    return worker === UNKNOWN_WORKER ? invalid("", `must not be "${UNKNOWN_WORKER}"`) : null;
  },
);

const handler = object(
  {
    use: where<string>(
      "a handler's name",
      (use) => typeof use === "string" && (use === SCRIPT_USE || USE_PATTERN.test(use)),
    ),
    version: optional(
      where<string>(
        "a version",
        (given) => typeof given === "string" && given !== "" && given.length <= VERSION_CHARS_MAX,
      ),
    ),
    enumerates: optional(flag),
  },
  { what: "a handler" },
);

const registration = object(
  {
    name: text({ pattern: NAME_PATTERN, what: "a name of 1 to 60 of A-Z a-z 0-9 _ . -" }),
    worker: orElse(orNull(workerId), null),
    capacity: integer(1, CAPACITY_MAX),
    topics: orElse(
      where<readonly string[]>(
        "a list of names",
        (given) =>
          Array.isArray(given) &&
          given.every((topic) => typeof topic === "string" && TOPIC_PATTERN.test(topic)),
      ),
      [],
    ),
    version: orElse(
      orNull(
        where<string>(
          "a short text",
          (given) => typeof given === "string" && given.length <= VERSION_CHARS_MAX,
        ),
      ),
      null,
    ),
    handlers: listOf(handler, { max: HANDLERS_MAX }) satisfies Decode<readonly Serves[]>,
    url: orElse(orNull(anything), null),
  },
  { what: "a registration" },
);

export interface CheckedRegistration {
  readonly name: string;
  readonly worker: string | null;
  readonly serves: readonly Serves[];
  readonly topics: readonly string[];
  readonly capacity: number;
  readonly url: string | null;
  readonly version: string | null;
  /** The project whose tasks the worker gets; null if it gets tasks of all projects. */
  readonly project: string | null;
}

/**
 * Checks a registration. `peer`: the client's address, null for a unix socket; `project`: the project of the client's token;
 * `reserved`: tells which topics are reserved.
 */
export function checkRegistration(
  body: unknown,
  peer: string | null,
  project: string | null = null,
  reserved: (topic: string) => Rejection | null = reservedTopic,
): CheckedRegistration | Rejection {
  const given = decode(registration, body, { whole: "body" });
  if (isRejection(given)) return given;
  const { topics, handlers, url } = given;
  for (const topic of topics) {
    const refusal = reserved(topic);
    if (refusal !== null) return { ...refusal, message: `topics: ${refusal.message}`, path: "topics" };
  }
  const wrong = url === null ? null : checkAddress(url, peer);
  if (wrong !== null) return wrong;
  return {
    name: given.name,
    worker: given.worker,
    serves: [...handlers, ...topics.map((topic) => ({ use: topicUse(topic) }))],
    topics,
    capacity: given.capacity,
    url: url === null ? null : (url as string).replace(/\/+$/, ""),
    version: given.version,
    project,
  };
}

/**
 * Checks the address of a worker's status API. It must be the worker's own, so that a worker cannot make the server call
 * another host.
 */
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
    ? `url: ${host} names the server's own machine, but this request came from ${from}`
    : `url: ${host} is not the address that this request came from`;
  return reject("invalid_input", asked, {
    path: "url",
    hint: "give the address of the worker itself as a number, or leave it out",
  });
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** An address without brackets, and without the IPv6 prefix of a mapped IPv4 address. */
function plainAddress(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/^::ffff:(?=\d+\.)/, "");
}
