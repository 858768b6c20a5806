/**
 * The setting `stateStores`: by name, what kind of store it is and where. A text is short for it: `embedded`, or the URL
 * of a database, of Redis, or of what serves Dapr's state API.
 */
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";

export interface PostgresStateSettings {
  readonly kind: "postgres";
  readonly url: string;
  /** `rondo_state` by default; with its schema if need be. */
  readonly table?: string;
}

export interface RedisStateSettings {
  readonly kind: "redis";
  readonly url: string;
  /** What keys begin with; `rondo:state` by default. */
  readonly prefix?: string;
}

export interface HttpStateSettings {
  readonly kind: "http";
  /** The base address, before `/v1.0/state`. */
  readonly url: string;
  /** The name of the store there, if it is another one. */
  readonly store?: string;
  /** Sent as `dapr-api-token`. */
  readonly token?: string;
}

export type StateStoreSettings =
  | { readonly kind: "embedded" }
  | PostgresStateSettings
  | RedisStateSettings
  | HttpStateSettings;

/** A store as it is written in a configuration. */
export type StateStoreGiven = string | StateStoreSettings;

/** Fields by kind, and which of them are needed. */
const FIELDS: Readonly<Record<StateStoreSettings["kind"], Readonly<Record<string, RegExp>>>> = {
  embedded: {},
  postgres: {
    url: /^postgres(?:ql)?:\/\/./,
    table: /^[A-Za-z_][A-Za-z0-9_$]{0,62}(?:\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$/,
  },
  redis: { url: /^rediss?:\/\/./, prefix: /^[^\s]{1,100}$/ },
  http: { url: /^https?:\/\/[^@]+$/, store: /^.{1,100}$/, token: /^.{1,1000}$/ },
};
const SHORT = '"embedded", "postgres://...", "redis://..." or "http://..."';

/** A store's settings; the rejection names what is wrong, but not the value, which may hold a password. */
export function parseStateStore(given: unknown, what: string): StateStoreSettings | Rejection {
  if (typeof given === "string") {
    if (given === "embedded") return { kind: "embedded" };
    const kind = given.startsWith("postgres") ? "postgres" : given.startsWith("redis") ? "redis" : "http";
    return parseStateStore({ kind, url: given }, what);
  }
  if (typeof given !== "object" || given === null || Array.isArray(given))
    return wrong(what, "is not a state store");
  const { kind, ...rest } = given as Record<string, unknown>;
  const fields = Object.hasOwn(FIELDS, String(kind)) ? FIELDS[kind as keyof typeof FIELDS] : undefined;
  if (fields === undefined) return wrong(`${what}.kind`, `is none of ${Object.keys(FIELDS).join(", ")}`);
  for (const [name, value] of Object.entries(rest)) {
    const pattern = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (pattern === undefined)
      return reject("unknown_field", `${what}.${name}: there is no such setting`, {
        path: `${what}.${name}`,
        hint: `a store of this kind has: ${["kind", ...Object.keys(fields)].join(", ")}`,
      });
    if (value !== undefined && (typeof value !== "string" || !pattern.test(value)))
      return wrong(`${what}.${name}`, "is not what it should be");
  }
  if ("url" in fields && rest["url"] === undefined) return wrong(`${what}.url`, "is missing");
  return given as StateStoreSettings;
}

/** All of them. */
export function parseStateStores(
  given: Readonly<Record<string, unknown>>,
  what = "stateStores",
): Readonly<Record<string, StateStoreSettings>> | Rejection {
  const stores = new Map<string, StateStoreSettings>();
  for (const [name, one] of Object.entries(given)) {
    const settings = parseStateStore(one, `${what}.${name}`);
    if (isRejection(settings)) return settings;
    if (name === "embedded" && settings.kind !== "embedded")
      return wrong(`${what}.${name}`, "is Rondo's own store, and nothing else can have its name");
    stores.set(name, settings);
  }
  return Object.fromEntries(stores);
}

function wrong(path: string, says: string): Rejection {
  return reject("invalid_input", `${path}: ${says}`, {
    path,
    hint: `a state store is ${SHORT}, or an object with its kind, url and more`,
  });
}
