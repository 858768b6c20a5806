/**
 * A state store in Redis: one hash for each key with the fields `data` (the value), `version`, `project`, `execution`, `seq` and `at`. A
 * Lua script compares versions and writes atomically. The operator installs the package `redis`.
 */
import { backOffMs } from "../../std/back-off.ts";
import { RondoError, reject } from "../../std/rejection.ts";
import type { RedisStateSettings } from "./state-settings.ts";
import {
  type NewEntry,
  type PutVerdict,
  parseVersion,
  type StateCall,
  type StateEntry,
  type StatePlace,
  type StateStore,
  versionText,
} from "./state-store.ts";

/** The methods of a client of the package `redis`, version 5 or later, that this file uses. */
interface RedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  on(event: "error" | "ready", listener: (error: Error) => void): unknown;
  connect(): Promise<unknown>;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  hmGet(key: string, fields: string[]): Promise<(string | null)[]>;
  close(): Promise<unknown>;
  destroy(): void;
}

export type LoadRedis = () => Promise<{ createClient(options: object): unknown }>;

const CONNECT_MS = 5_000;
const RECONNECT = { minMs: 50, maxMs: 2_000 } as const;
/**
 * A Lua script that writes a value if it is newer. It compares versions byte by byte, because the server's locale may sort
 * strings differently.
 */
const PUT = `
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local there = redis.call('HMGET', KEYS[1], 'version', 'project')
if there[2] and there[2] ~= ARGV[2] then return 'foreign' end
if there[1] and there[1] == ARGV[1] then return 'same' end
if there[1] and before(ARGV[1], there[1]) then return 'newer' end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'project', ARGV[2], 'data', ARGV[3],
  'execution', ARGV[4], 'seq', ARGV[5], 'at', ARGV[6])
return 'stored'`;

/** The package `redis` is an optional dependency. Its name is not written in the import itself, so that bundlers do not look for it. */
const REDIS: string = "redis";

export class RedisState implements StateStore {
  readonly #settings: RedisStateSettings;
  readonly #onFault: (fault: Error) => void;
  readonly #load: LoadRedis;
  #client: Promise<RedisClient> | null = null;

  constructor(
    settings: RedisStateSettings,
    onFault: (fault: Error) => void,
    load: LoadRedis = () => import(REDIS) as ReturnType<LoadRedis>,
  ) {
    this.#settings = settings;
    this.#onFault = onFault;
    this.#load = load;
  }

  async put(place: StatePlace, { version, project, value }: NewEntry, call: StateCall): Promise<PutVerdict> {
    const { at, execution, seq } = version;
    const values = [versionText(version), project, value, execution, String(seq), String(at)];
    const verdict = await this.#call(call, (client) =>
      client.eval(PUT, { keys: [this.#keyOf(place)], arguments: values }),
    );
    return verdict as PutVerdict;
  }

  async get(place: StatePlace, call: StateCall): Promise<StateEntry | null> {
    const [data, version, project] = await this.#call(call, (client) =>
      client.hmGet(this.#keyOf(place), ["data", "version", "project"]),
    );
    if (data === null || data === undefined) return null;
    return { value: data, version: parseVersion(version), project: project ?? null };
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => null);
    if (client === null || client === undefined || !client.isOpen) return;
    // The client is destroyed if it has no connection, because closing it would wait for one.
    if (client.isReady) await client.close();
    else client.destroy();
  }

  /** Returns the Redis key of a value. Colons separate the parts of the key and are escaped inside the parts. */
  #keyOf({ store, partition, key }: StatePlace): string {
    const { prefix = "rondo:state" } = this.#settings;
    const parts = [store, partition ?? "", key];
    return [prefix, ...parts.map((part) => part.replace(/[%:]/g, encodeURIComponent))].join(":");
  }

  async #call<T>({ timeoutMs }: StateCall, run: (client: RedisClient) => Promise<T>): Promise<T> {
    this.#client ??= this.#connect();
    const limit = AbortSignal.timeout(timeoutMs);
    return unlessLate(
      this.#client.then(run),
      limit,
      () => new Error(`redis: no answer within ${timeoutMs} ms`),
    );
  }

  async #connect(): Promise<RedisClient> {
    try {
      const redis = await this.#import();
      let wasReady = false;
      const client = redis.createClient({
        url: this.#settings.url,
        // While there is no connection, a call fails at once instead of waiting. The caller retries later.
        disableOfflineQueue: true,
        socket: {
          connectTimeout: CONNECT_MS,
          reconnectStrategy: (tries: number, cause: Error) =>
            wasReady ? backOffMs(tries, RECONNECT) : cause,
        },
      }) as RedisClient;
      let isTold = false;
      // A connection fault is reported once, not for each try to reconnect.
      client.on("error", (fault) => {
        if (!isTold) this.#onFault(fault);
        isTold = true;
      });
      client.on("ready", () => {
        wasReady = true;
        isTold = false;
      });
      const limit = AbortSignal.timeout(CONNECT_MS);
      const late = () => new Error(`redis: no connection within ${CONNECT_MS} ms`);
      try {
        await unlessLate(client.connect(), limit, late);
      } catch (thrown) {
        if (client.isOpen) client.destroy();
        throw thrown;
      }
      return client;
    } catch (thrown) {
      this.#client = null;
      throw thrown;
    }
  }

  async #import(): ReturnType<LoadRedis> {
    try {
      return await this.#load();
    } catch (cause) {
      throw new RondoError(
        reject(
          "invalid_input",
          'state stores of the kind redis need the package "redis", which is not here',
          {
            path: "stateStores",
            hint: "npm install redis",
          },
        ),
        { cause },
      );
    }
  }
}

function unlessLate<T>(promise: Promise<T>, limit: AbortSignal, late: () => Error): Promise<T> {
  return new Promise((resolve, fail) => {
    const giveUp = (): void => fail(late());
    limit.addEventListener("abort", giveUp);
    void promise.then(resolve, fail).finally(() => limit.removeEventListener("abort", giveUp));
  });
}
