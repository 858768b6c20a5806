/**
 * A state store over HTTP, by Dapr's state API. `GET /v1.0/state/<store>/<key>` returns the value with its ETag. `POST
 * /v1.0/state/<store>` writes a list of one value, only if the ETag is unchanged or there is no value yet. Rondo's own fields are in the
 * member `__rondo__` of the value; a value that is not an object is stored as `value`.
 */
import { HttpConnection } from "../../net/http-connection.ts";
import type { Json } from "../../std/json.ts";
import type { HttpStateSettings } from "./state-settings.ts";
import {
  compareEntries,
  type NewEntry,
  type PutVerdict,
  parseVersion,
  type StateCall,
  type StateEntry,
  type StatePlace,
  type StateStore,
  versionText,
} from "./state-store.ts";

const MARK = "__rondo__";
const ANSWER_BYTES_MAX = 4 * 1_048_576;
/** How many times a write is tried if other writers change the value first. */
const TRIES = 10;
/** HTTP statuses that mean that another writer has changed the value first. */
const CONFLICTS = [409, 412];

interface Found {
  readonly entry: StateEntry;
  readonly etag: string | undefined;
}

/**
 * Thrown if a value could not be read or written: the state store answered with an error or without an ETag, or other writers kept
 * changing the value.
 */
export class StateRefused extends Error {
  override name = "StateRefused";
  /** Whether the same request would fail again in the same way. */
  readonly isFinal: boolean;
  constructor(message: string, isFinal: boolean) {
    super(message);
    this.isFinal = isFinal;
  }
}

export class HttpState implements StateStore {
  readonly #connection: HttpConnection;
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ url, store, token }: HttpStateSettings, name: string) {
    this.#connection = new HttpConnection({ address: url, answerBytesMax: ANSWER_BYTES_MAX });
    this.#base = `/v1.0/state/${encodeURIComponent(store ?? name)}`;
    this.#headers = token === undefined ? {} : { "dapr-api-token": token };
  }

  async put(place: StatePlace, entry: NewEntry, call: StateCall): Promise<PutVerdict> {
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#read(place, call);
      const verdict = compareEntries(entry, found?.entry ?? null);
      if (verdict !== "stored") return verdict;
      if (await this.#write(place, { entry, found }, call)) return "stored";
    }
    throw new StateRefused(
      `the state "${place.key}" could not be written: too many writers change it at the same time`,
      false,
    );
  }

  async get(place: StatePlace, call: StateCall): Promise<StateEntry | null> {
    return (await this.#read(place, call))?.entry ?? null;
  }

  async close(): Promise<void> {
    this.#connection.close();
  }

  async #read({ key, partition }: StatePlace, call: StateCall): Promise<Found | null> {
    const query = new URLSearchParams({ consistency: "strong" });
    if (partition !== null) query.set("metadata.partitionKey", partition);
    const path = `${this.#base}/${encodeURIComponent(key)}?${query.toString()}`;
    const answer = await this.#connection.send({ method: "GET", path, headers: this.#headers, ...call });
    if (answer.status === 204 || answer.status === 404) return null;
    if (answer.status !== 200) throw refused(answer.status, answer.text);
    // Some stores answer with an empty body if the key does not exist.
    if (answer.text === "") return null;
    return { entry: decode(answer.text), etag: answer.headers.etag };
  }

  /** Writes the value. Resolves with false if another writer has changed the value first. */
  async #write(
    { key, partition }: StatePlace,
    { entry, found }: { readonly entry: NewEntry; readonly found: Found | null },
    call: StateCall,
  ): Promise<boolean> {
    if (found !== null && found.etag === undefined)
      throw new StateRefused("the store returns no ETag, so a write could replace a newer value", true);
    const item = {
      key,
      value: encode(entry),
      ...(found === null ? {} : { etag: found.etag }),
      options: { concurrency: "first-write", consistency: "strong" },
      ...(partition === null ? {} : { metadata: { partitionKey: partition } }),
    };
    const { status, text } = await this.#connection.send({
      method: "POST",
      path: this.#base,
      headers: this.#headers,
      body: JSON.stringify([item]),
      ...call,
    });
    if (CONFLICTS.includes(status)) return false;
    if (status < 200 || status > 299) throw refused(status, text);
    return true;
  }
}

function encode({ value, version, project }: NewEntry): Json {
  const parsed = JSON.parse(value) as Json;
  const isObject = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
  const mark = { version: versionText(version), project, ...(isObject ? {} : { wrapped: true }) };
  return isObject ? { ...(parsed as object), [MARK]: mark } : { value: parsed, [MARK]: mark };
}

function decode(text: string): StateEntry {
  const parsed = JSON.parse(text) as Json;
  const isObject = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
  const { [MARK]: mark, ...rest } = isObject ? (parsed as Record<string, Json>) : {};
  const marked = mark as { version?: unknown; project?: unknown; wrapped?: unknown } | null | undefined;
  const version = parseVersion(marked?.version);
  if (version === null) return { value: text, version: null, project: null };
  return {
    value: JSON.stringify(marked?.wrapped === true ? rest["value"] : rest),
    version,
    project: typeof marked?.project === "string" ? marked.project : null,
  };
}

/** A request is retried after "too many requests" and after server errors. Other errors are about the request itself, so they are final. */
function refused(status: number, text: string): StateRefused {
  const isFinal = status >= 300 && status < 500 && ![401, 403, 408, 425, 429].includes(status);
  const says = text === "" ? "" : `: ${text.slice(0, 300)}`;
  return new StateRefused(`the state store answered with status ${status}${says}`, isFinal);
}
