/**
 * The setting `stateStores`: the kind and address of each state store, by name. A string is a short form of the settings: `embedded`, or
 * the URL of a database, of Redis, or of a server with Dapr's state API.
 */
import {
  anything,
  at,
  type Decode,
  decode,
  type Fields,
  isObject,
  mapOf,
  object,
  oneOf,
  optional,
  secret,
  Undecodable,
} from "../../std/decode.ts";
import type { Rejection } from "../../std/rejection.ts";

/** A state store in PostgreSQL. */
export interface PostgresStateSettings {
  /** The kind of store. */
  readonly kind: "postgres";
  /** The address of the database. */
  readonly url: string;
  /**
   * The table that holds the values, if needed with its schema (`schema.table`).
   *
   * @default "rondo_state"
   */
  readonly table?: string;
}

/** A state store in Redis. */
export interface RedisStateSettings {
  /** The kind of store. */
  readonly kind: "redis";
  /** The address of Redis. */
  readonly url: string;
  /**
   * The prefix of all keys in Redis.
   *
   * @default "rondo:state"
   */
  readonly prefix?: string;
}

/** A state store behind Dapr's state API. */
export interface HttpStateSettings {
  /** The kind of store. */
  readonly kind: "http";
  /** The base URL of the server, before `/v1.0/state`. */
  readonly url: string;
  /** The name of the store at that server, if it differs from its name in Rondo's settings. */
  readonly store?: string;
  /** The token that is sent in the header `dapr-api-token`. */
  readonly token?: string;
}

/** The settings of a state store: its kind and its address. */
export type StateStoreSettings =
  | { readonly kind: "embedded" }
  | PostgresStateSettings
  | RedisStateSettings
  | HttpStateSettings;

/** A state store as it is written in a configuration. */
export type StateStoreGiven = string | StateStoreSettings;

const HINT =
  'a state store is "embedded", "postgres://...", "redis://..." or "http://...", or an object with its kind, url and more';

const kind = anything as Decode<never>;

/** Decoders of the settings of each kind of store. Errors do not show values, which may contain passwords. */
const STORES = {
  embedded: object({ kind }),
  postgres: object({
    kind,
    url: hidden("a postgres:// address", /^postgres(?:ql)?:\/\/./),
    table: optional(
      hidden("the name of a table", /^[A-Za-z_][A-Za-z0-9_$]{0,62}(?:\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$/),
    ),
  }),
  redis: object({
    kind,
    url: hidden("a redis:// address", /^rediss?:\/\/./),
    prefix: optional(hidden("a prefix of keys", /^[^\s]{1,100}$/)),
  }),
  http: object({
    kind,
    url: hidden("an http address without a user name", /^https?:\/\/[^@]+$/),
    store: optional(hidden("the name of a store", /^.{1,100}$/)),
    token: optional(hidden("a token", /^.{1,1000}$/)),
  }),
} satisfies Readonly<Record<StateStoreSettings["kind"], Decode<StateStoreSettings>>>;

const kindOfStore = oneOf(Object.keys(STORES) as (keyof typeof STORES)[]);
const storeFields = secret<Fields>("a state store", isObject, HINT);

const stateStore: Decode<StateStoreSettings> = (given) => {
  if (given === "embedded") return { kind: "embedded" };
  if (typeof given === "string") {
    const kind = given.startsWith("postgres") ? "postgres" : given.startsWith("redis") ? "redis" : "http";
    return STORES[kind]({ kind, url: given });
  }
  const fields = storeFields(given);
  return STORES[at("kind", kindOfStore, fields["kind"])](fields);
};

const allStores = mapOf(stateStore);

/** Decodes the state stores by name. */
export const stateStores: Decode<Readonly<Record<string, StateStoreSettings>>> = (given) => {
  const stores = allStores(secret("an object of state stores", isObject)(given));
  const own = Object.hasOwn(stores, "embedded") ? stores["embedded"] : undefined;
  if (own !== undefined && own.kind !== "embedded")
    throw new Undecodable("is the name of Rondo's own store, and cannot be used for another", {
      path: "embedded",
      hint: HINT,
    });
  return stores;
};

export function parseStateStores(given: unknown): Readonly<Record<string, StateStoreSettings>> | Rejection {
  return decode(stateStores, given, { path: "stateStores" });
}

function hidden(what: string, pattern: RegExp): Decode<string> {
  return secret(what, (value) => typeof value === "string" && pattern.test(value), HINT);
}
