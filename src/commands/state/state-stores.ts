/** State stores by name, opened on first use. If no store is configured, Rondo's own store is used for every name. */
import { type Rejection, RondoError, reject } from "../../std/rejection.ts";
import type { DocumentStore } from "../../store/store.ts";
import { EmbeddedState } from "./embedded-state.ts";
import type { StateStoreSettings } from "./state-settings.ts";
import type { StateStore } from "./state-store.ts";

export interface StateStoresOptions {
  /** Rondo's own store. */
  readonly store: DocumentStore;
  /** The configured stores by name. If there are none, any name is allowed. */
  readonly settings: Readonly<Record<string, StateStoreSettings>>;
  readonly onFault: (fault: Error) => void;
}

const EMBEDDED = "embedded";
const NAME_CHARS_MAX = 100;

export class StateStores {
  readonly #options: StateStoresOptions;
  readonly #embedded: EmbeddedState;
  readonly #open = new Map<string, Promise<StateStore>>();

  constructor(options: StateStoresOptions) {
    this.#options = options;
    this.#embedded = new EmbeddedState(options.store);
  }

  /** Returns why there is no state store of this name; null if there is one. */
  refusalOf(name: string): Rejection | null {
    if (name === "" || name.length > NAME_CHARS_MAX)
      return reject("not_found", `the name of a state store must have 1 to ${NAME_CHARS_MAX} characters`);
    const { settings } = this.#options;
    const names = Object.keys(settings);
    if (names.length === 0 || name === EMBEDDED || Object.hasOwn(settings, name)) return null;
    return reject("not_found", `there is no state store "${name}"`, {
      hint: `the state stores are: ${[...new Set([...names, EMBEDDED])].sort().join(", ")}; to add more, use the setting stateStores`,
    });
  }

  /** Opens the state store of this name. Throws if there is none. */
  async open(name: string): Promise<StateStore> {
    const refusal = this.refusalOf(name);
    if (refusal !== null) throw new RondoError(refusal);
    const { settings: all } = this.#options;
    const settings = Object.hasOwn(all, name) ? all[name] : undefined;
    if (settings === undefined || settings.kind === EMBEDDED) return this.#embedded;
    let opened = this.#open.get(name);
    if (opened === undefined) {
      opened = openStateStore(name, settings, this.#options.onFault);
      this.#open.set(name, opened);
    }
    return opened;
  }

  async close(): Promise<void> {
    for (const opened of this.#open.values()) await (await opened).close();
    this.#open.clear();
  }
}

/** Opens a state store other than Rondo's own. The code for each kind is imported on first use. */
export async function openStateStore(
  name: string,
  settings: Exclude<StateStoreSettings, { kind: "embedded" }>,
  onAnyFault: (fault: Error) => void,
): Promise<StateStore> {
  const onFault = (fault: Error): void =>
    onAnyFault(new Error(`state store "${name}": ${fault.message}`, { cause: fault }));
  switch (settings.kind) {
    case "postgres": {
      const { PostgresState } = await import("./postgres-state.ts");
      return new PostgresState(settings, onFault);
    }
    case "redis": {
      const { RedisState } = await import("./redis-state.ts");
      return new RedisState(settings, onFault);
    }
    case "http": {
      const { HttpState } = await import("./http-state.ts");
      return new HttpState(settings, name);
    }
  }
}
