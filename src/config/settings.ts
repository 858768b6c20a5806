/** Every setting in one table: flag, environment variable, key in `rondo.config.{ts,js,json}`, and default. */
import type { WebhookSecretsGiven } from "../commands/post-ops/webhook-secrets.ts";
import type { StateStoreGiven } from "../commands/state/state-settings.ts";
import { isBrokerUrl } from "../protocol/broker-address.ts";
import { BROKER_REQUEST_MODES, type BrokerRequestMode } from "../protocol/broker-requests.ts";
import {
  type Decode,
  flag,
  listOf,
  mapOf,
  mapped,
  object,
  oneOf,
  optional,
  secret,
  text,
} from "../std/decode.ts";
import { showDuration } from "../std/duration.ts";
import type { AlertsGiven } from "./alert-settings.ts";
import {
  cors,
  count,
  durationFrom,
  EVENTS_KEPT_MIN_MS,
  filledText,
  httpUrl,
  port,
  type Setting,
  settingName,
  texts,
  type WebhookSettings,
  webhooks,
} from "./setting.ts";

/** The settings of one project. */
export interface ProjectSettings {
  /** The most tasks that run at a time, over all executions of the project. */
  readonly concurrency?: number;
  /** Patterns of topics, in which `*` matches any text. The project may use only these topics and `<project>_*`. */
  readonly topics?: readonly string[];
}

/** Limits on the requests of one client. A missing limit has its default. */
export interface LimitSettings {
  /** The largest request body: in bytes, and in keys. */
  readonly bodyBytes?: number;
  readonly bodyKeys?: number;
  /** The most requests a second, by token or client address. */
  readonly requestsPerSecond?: number;
  /** The longest time for the headers, for the whole request, and for the answer. */
  readonly headerMs?: number;
  readonly requestMs?: number;
  readonly answerMs?: number;
  readonly connections?: number;
  /**
   * The most streams that are open at a time, the most bytes buffered for one stream, and how long a client may read nothing of
   * it.
   */
  readonly streams?: number;
  readonly streamBytes?: number;
  readonly streamStallMs?: number;
}

/** The settings of the ring of a cluster. A setting that is left out has its default. */
export interface RingTimes {
  /** How many nodes watch the timers of each node, the node itself included. */
  readonly clockworkers?: number;
  /** The shortest time between two sendings of the ring's token: `idleCycle` while there are no new hints, `busyCycle` while there are. */
  readonly idleCycle?: number;
  readonly busyCycle?: number;
  /** How long an overdue timer is left to its owner before another node that watches the timer notifies the owner. */
  readonly grace?: number;
}

const bytes = optional(count("in bytes, without a unit, such as 1048576"));
const ms = optional(count("in milliseconds, without a unit, such as 30000"));

/** Decodes a list of topic patterns. */
const topics: Decode<readonly string[]> = mapped(
  texts,
  listOf(
    text({
      pattern: /^[A-Za-z0-9*][A-Za-z0-9_.*-]{0,199}$/,
      what: "a pattern of topics",
      hint: 'letters, digits, _, . and -, and * for any text, such as "LEXI_*"',
    }),
  ),
);

/** Decodes the prefix of names at a broker. Its length limit leaves room for the rest of a name. */
const prefix = text({
  pattern: /^[A-Za-z][A-Za-z0-9_.-]{0,39}$/,
  what: "a prefix",
  hint: "a letter, then up to 39 letters, digits, dots, _ or -",
});

/** Decodes the address of RabbitMQ, which may contain a password and is never shown in errors. */
const broker = secret<string>(
  "the address of a broker",
  (value) => typeof value === "string" && isBrokerUrl(value),
  'write it as "amqp://user:password@127.0.0.1:5672"',
);

/** Decodes the address of a server, or the addresses of several nodes, separated by commas. */
const serverUrls: Decode<string> = (value) =>
  typeof value === "string"
    ? value
        .split(",")
        .map((part) => httpUrl(part.trim()))
        .join(",")
    : httpUrl(value);

const hidden = secret<string>("a text", (value) => typeof value === "string" && value !== "");

/** Loads the decoders of post-operations only if one of their settings is given. */
const postOps = () => import("./post-op-settings.ts");

const projects: Decode<Readonly<Record<string, ProjectSettings>>> = mapOf(
  object({ concurrency: optional(count()), topics: optional(topics) }),
  { key: settingName },
);

const ring: Decode<RingTimes> = object({
  clockworkers: optional(count()),
  idleCycle: optional(durationFrom(10)),
  busyCycle: optional(durationFrom(10)),
  grace: optional(durationFrom(100)),
});

const limits: Decode<LimitSettings> = object({
  bodyBytes: bytes,
  bodyKeys: optional(count()),
  requestsPerSecond: optional(count()),
  headerMs: ms,
  requestMs: ms,
  answerMs: ms,
  connections: optional(count()),
  streams: optional(count()),
  streamBytes: bytes,
  streamStallMs: ms,
});

/** All settings, by name. */
export const SETTINGS = {
  store: {
    flag: "store",
    env: "RONDO_STORE",
    inFile: true,
    fallback: "file:.rondo",
    decoder: () => filledText,
    rebase: (value: string, resolve: (path: string) => string) =>
      value.startsWith("file:") && value.length > 5 ? `file:${resolve(value.slice(5))}` : value,
  } satisfies Setting<string>,
  broker: unset({ flag: "broker", env: "RONDO_BROKER", inFile: true }, broker),
  prefix: { inFile: true, fallback: "rondo", decoder: () => prefix } satisfies Setting<string>,
  host: {
    flag: "host",
    env: "RONDO_HOST",
    inFile: true,
    fallback: "127.0.0.1",
    decoder: () => filledText,
  } satisfies Setting<string>,
  port: {
    flag: "port",
    env: "RONDO_PORT",
    inFile: true,
    fallback: 7_777,
    decoder: () => port,
  } satisfies Setting<number>,
  advertise: unset({ env: "RONDO_ADVERTISE", inFile: true }, httpUrl),
  hosts: { inFile: true, fallback: [], decoder: () => texts } satisfies Setting<readonly string[]>,
  cors: {
    env: "RONDO_CORS",
    inFile: true,
    fallback: { origins: [] },
    decoder: () => cors,
  } as Setting<{ readonly origins: readonly string[] }>,
  files: {
    flag: "files",
    inFile: true,
    fallback: [],
    decoder: () => texts,
    rebase: (value: readonly string[], resolve: (path: string) => string) => value.map(resolve),
  } satisfies Setting<readonly string[]>,
  stateStores: {
    env: "RONDO_STATE_STORES",
    inFile: true,
    fallback: {},
    decoder: async () => (await postOps()).givenStores,
  } satisfies Setting<Readonly<Record<string, StateStoreGiven>>>,
  allowTargets: {
    env: "RONDO_ALLOW_TARGETS",
    inFile: true,
    fallback: [],
    decoder: async () => (await postOps()).allowTargets,
  } satisfies Setting<readonly string[]>,
  webhookSecrets: {
    env: "RONDO_WEBHOOK_SECRETS",
    inFile: true,
    fallback: [],
    isSecret: true,
    decoder: async () => (await postOps()).webhookSecrets,
  } satisfies Setting<WebhookSecretsGiven>,
  alerts: {
    inFile: true,
    fallback: {},
    isSecret: true,
    decoder: async () => (await import("./alert-settings.ts")).alerts,
  } satisfies Setting<AlertsGiven>,
  projects: {
    inFile: true,
    fallback: {},
    decoder: () => projects,
  } satisfies Setting<Readonly<Record<string, ProjectSettings>>>,
  receiptTopics: { inFile: true, fallback: [], decoder: () => topics } satisfies Setting<readonly string[]>,
  brokerSilence: duration(300_000, 1_000),
  shortMessages: { inFile: true, fallback: false, decoder: () => flag } satisfies Setting<boolean>,
  brokerRequests: {
    inFile: true,
    fallback: "trusted",
    decoder: () => oneOf(BROKER_REQUEST_MODES),
  } satisfies Setting<BrokerRequestMode>,
  retention: duration(30 * 86_400_000, 0),
  // A repeated webhook is accepted for up to ten minutes, so the ids of events must be remembered for longer.
  eventsKept: duration(7 * 86_400_000, EVENTS_KEPT_MIN_MS),
  webhooks: {
    inFile: true,
    fallback: {},
    isSecret: true,
    decoder: () => webhooks,
  } satisfies Setting<Readonly<Record<string, WebhookSettings>>>,
  lease: duration(10_000, 1_000),
  ring: { inFile: true, fallback: {}, decoder: () => ring } as Setting<RingTimes>,
  turnMessages: { inFile: true, fallback: 256, decoder: () => count() } satisfies Setting<number>,
  heartbeat: duration(30_000, 100),
  claimLease: duration(30_000, 100),
  sweep: duration(10_000, 10),
  limits: {
    inFile: true,
    fallback: {},
    decoder: () => limits,
  } satisfies Setting<LimitSettings>,
  url: unset({ flag: "url", env: "RONDO_URL", inFile: false }, serverUrls),
  token: unset({ flag: "token", env: "RONDO_TOKEN", inFile: false, isSecret: true }, hidden),
  secret: unset({ env: "RONDO_SECRET", inFile: false, isSecret: true }, hidden),
  adminToken: unset({ env: "RONDO_ADMIN_TOKEN", inFile: false, isSecret: true }, hidden),
};

export type SettingName = keyof typeof SETTINGS;

/** The effective values of all settings. */
export type Config = {
  readonly [Name in SettingName]: (typeof SETTINGS)[Name] extends Setting<infer T> ? T : never;
};

/** Declares a setting that is null by default. */
function unset<T>(
  from: Omit<Setting<T>, "fallback" | "decoder" | "rebase" | "show">,
  read: Decode<T>,
): Setting<T | null> {
  return { ...from, fallback: null, decoder: () => read };
}

/** Declares a duration with the default `ms` and the minimum `minMs`. */
function duration(ms: number, minMs: number): Setting<number> {
  const read = durationFrom(minMs);
  return { inFile: true, fallback: ms, decoder: () => read, show: showDuration };
}
