/**
 * Every setting of Rondo's commands in one table: flag, environment variable, key in `rondo.config.{ts,js,json}`, and
 * default. Adding one here is all it takes for it to be read, checked and shown by `rondo doctor`.
 */

import type { WebhookSecretsGiven } from "../commands/post-ops/webhook-secrets.ts";
import type { StateStoreGiven } from "../commands/state/state-settings.ts";
import { NAME_PATTERN } from "../kernel/definition/definition.ts";
import { isBrokerUrl } from "../protocol/broker-address.ts";
import { showDuration } from "../std/duration.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import {
  checkBytes,
  checkCount,
  checkDuration,
  checkFields,
  checkMap,
  checkMs,
  checkPort,
  checkText,
  checkTexts,
  checkUrl,
  type Setting,
} from "./setting.ts";

/** What the configuration says of one project. */
export interface ProjectSettings {
  /** Tasks of all its executions that may run at the same time. */
  readonly concurrency?: number;
  /** Patterns of topics, in which `*` stands for any text: it may use only these and `<project>_*`. */
  readonly topics?: readonly string[];
}

/** Bounds of what the server takes from one client; what is not named has its default. */
export interface LimitSettings {
  /** The largest body of a request, in bytes, and most keys in one. */
  readonly bodyBytes?: number;
  readonly bodyKeys?: number;
  /** Requests a second, per token or address. */
  readonly requestsPerSecond?: number;
  /** How long the headers, the whole request, and the answer may take. */
  readonly headerMs?: number;
  readonly requestMs?: number;
  readonly answerMs?: number;
  readonly connections?: number;
  /** Open streams, bytes kept for one of them, and how long it may take none. */
  readonly streams?: number;
  readonly streamBytes?: number;
  readonly streamStallMs?: number;
}

const NAMES = { pattern: NAME_PATTERN, what: "a name: a letter, then up to 39 letters, digits, _ or -" };

/** Loaded only if one of them is set. */
const postOps = () => import("./post-op-settings.ts");

/** The table. */
export const SETTINGS = {
  store: {
    flag: "store",
    env: "RONDO_STORE",
    inFile: true,
    fallback: "file:.rondo",
    check: checkText,
    rebase: (value: string, resolve: (path: string) => string) =>
      value.startsWith("file:") && value.length > 5 ? `file:${resolve(value.slice(5))}` : value,
  } satisfies Setting<string>,
  broker: optional({ flag: "broker", env: "RONDO_BROKER", inFile: true }, checkBroker),
  prefix: { inFile: true, fallback: "rondo", check: checkPrefix } satisfies Setting<string>,
  host: {
    flag: "host",
    env: "RONDO_HOST",
    inFile: true,
    fallback: "127.0.0.1",
    check: checkText,
  } satisfies Setting<string>,
  port: {
    flag: "port",
    env: "RONDO_PORT",
    inFile: true,
    fallback: 7_777,
    check: checkPort,
  } satisfies Setting<number>,
  advertise: optional({ env: "RONDO_ADVERTISE", inFile: true }, checkUrl),
  hosts: { inFile: true, fallback: [], check: checkTexts } satisfies Setting<readonly string[]>,
  files: {
    flag: "files",
    inFile: true,
    fallback: [],
    check: checkTexts,
    rebase: (value: readonly string[], resolve: (path: string) => string) => value.map(resolve),
  } satisfies Setting<readonly string[]>,
  stateStores: {
    env: "RONDO_STATE_STORES",
    inFile: true,
    fallback: {},
    check: async (value, what) => (await postOps()).checkStateStores(value, what, NAMES),
  } satisfies Setting<Readonly<Record<string, StateStoreGiven>>>,
  allowTargets: {
    env: "RONDO_ALLOW_TARGETS",
    inFile: true,
    fallback: [],
    check: async (value, what) => (await postOps()).checkAllowTargets(value, what),
  } satisfies Setting<readonly string[]>,
  webhookSecrets: {
    env: "RONDO_WEBHOOK_SECRETS",
    inFile: true,
    fallback: [],
    isSecret: true,
    check: async (value, what) => (await postOps()).checkWebhookSecrets(value, what),
  } satisfies Setting<WebhookSecretsGiven>,
  projects: {
    inFile: true,
    fallback: {},
    check: checkMap(checkFields<ProjectSettings>({ concurrency: checkCount, topics: checkTopics }), NAMES),
  } satisfies Setting<Readonly<Record<string, ProjectSettings>>>,
  receiptTopics: { inFile: true, fallback: [], check: checkTopics } satisfies Setting<readonly string[]>,
  brokerSilence: duration(300_000, 1_000),
  retention: duration(30 * 86_400_000, 0),
  lease: duration(10_000, 1_000),
  heartbeat: duration(30_000, 100),
  claimLease: duration(30_000, 100),
  sweep: duration(10_000, 10),
  limits: {
    inFile: true,
    fallback: {},
    check: checkFields<LimitSettings>({
      bodyBytes: checkBytes,
      bodyKeys: checkCount,
      requestsPerSecond: checkCount,
      headerMs: checkMs,
      requestMs: checkMs,
      answerMs: checkMs,
      connections: checkCount,
      streams: checkCount,
      streamBytes: checkBytes,
      streamStallMs: checkMs,
    }),
  } satisfies Setting<LimitSettings>,
  url: optional({ flag: "url", env: "RONDO_URL", inFile: false }, checkUrls),
  token: optional({ flag: "token", env: "RONDO_TOKEN", inFile: false, isSecret: true }, checkText),
  secret: optional({ env: "RONDO_SECRET", inFile: false, isSecret: true }, checkText),
  adminToken: optional({ env: "RONDO_ADMIN_TOKEN", inFile: false, isSecret: true }, checkText),
};

/** The name of a setting. */
export type SettingName = keyof typeof SETTINGS;

/** Every setting's value. */
export type Config = {
  readonly [Name in SettingName]: (typeof SETTINGS)[Name] extends Setting<infer T> ? T : never;
};

function optional<T>(
  from: Omit<Setting<T>, "fallback" | "check" | "rebase" | "show">,
  check: Setting<T>["check"],
): Setting<T | null> {
  return { ...from, fallback: null, check };
}

/** So long unless it is said otherwise; what is shorter than `minMs` would keep nobody alive. */
function duration(ms: number, minMs: number): Setting<number> {
  return { inFile: true, fallback: ms, check: checkDuration(minMs), show: showDuration };
}

/** The address of a RabbitMQ. */
function checkBroker(value: unknown, what: string): string | Rejection {
  if (typeof value === "string" && isBrokerUrl(value)) return value;
  return reject("invalid_input", `${what}: this is not the address of a broker`, {
    path: what,
    hint: 'write it as "amqp://user:password@127.0.0.1:5672"',
  });
}

/** Patterns of topics. */
function checkTopics(value: unknown, what: string): readonly string[] | Rejection {
  const texts = checkTexts(value, what);
  if (isRejection(texts)) return texts;
  const wrong = texts.find((text) => !/^[A-Za-z0-9*][A-Za-z0-9_.*-]{0,199}$/.test(text));
  if (wrong === undefined) return texts;
  return reject("invalid_input", `${what}: "${wrong.slice(0, 80)}" is not a pattern of topics`, {
    path: what,
    hint: 'letters, digits, _, . and -, and * for any text, such as "LEXI_*"',
  });
}

/** What names at a broker begin with; it leaves room for what follows. */
function checkPrefix(value: unknown, what: string): string | Rejection {
  if (typeof value === "string" && /^[A-Za-z][A-Za-z0-9_.-]{0,39}$/.test(value)) return value;
  return reject("invalid_input", `${what}: this is not a prefix`, {
    path: what,
    hint: "a letter, then up to 39 letters, digits, dots, _ or -",
  });
}

/** Addresses of one server, or of several nodes of a cluster with commas between them; each is given as it is used. */
function checkUrls(value: unknown, what: string): string | Rejection {
  if (typeof value !== "string") return checkUrl(value, what);
  const urls: string[] = [];
  for (const part of value.split(",")) {
    const url = checkUrl(part.trim(), what);
    if (isRejection(url)) return url;
    urls.push(url);
  }
  return urls.join(",");
}
