/** Opens post-operations with their settings. The settings are checked when Rondo opens; the code is loaded on first use. */
import type { Performer } from "../commands/post-ops/post-op-performer.ts";
import type { StateEntry, StatePlace } from "../commands/state/state-store.ts";
import type { PostOps, PostOpTask } from "../engine/post-ops/post-ops.ts";
import type { PostOpOutcome } from "../kernel/message.ts";
import { readManifest } from "../package-root.ts";
import type { Clock } from "../std/clock.ts";
import { type Rejection, unwrap } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { PostOpOptions } from "./open-options.ts";

interface PostOpParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly onFault: (fault: Error) => void;
}

/** Loads the performer of post-operations on first use. */
export class LazyPostOps implements PostOps {
  readonly #load: () => Promise<Performer>;
  #loaded: Promise<Performer> | null = null;

  constructor(load: () => Promise<Performer>) {
    this.#load = load;
  }

  async perform(task: PostOpTask, signal: AbortSignal): Promise<PostOpOutcome> {
    return (await this.loaded()).perform(task, signal);
  }

  /** Reads the value of a key from a state store; null if there is none. */
  async readState(place: StatePlace): Promise<StateEntry | null | Rejection> {
    return (await this.loaded()).readState(place);
  }

  /** Returns why no value can be stored under a key of a state store, judged by store, key and settings; null if one can. */
  async refusalOf(place: StatePlace): Promise<Rejection | null> {
    return (await this.loaded()).refusalOf(place);
  }

  /** Closes the connections to state stores. */
  async close(): Promise<void> {
    await (await this.#loaded)?.close();
  }

  /** Loads the performer of post-operations. Throws if the settings are wrong. */
  loaded(): Promise<Performer> {
    this.#loaded ??= this.#load();
    return this.#loaded;
  }
}

/** Opens post-operations with the options. Throws if an option is wrong. */
export async function openPostOps(options: PostOpOptions, parts: PostOpParts): Promise<LazyPostOps> {
  const { stateStores = {}, allowTargets = [], webhookSecrets = [] } = options;
  const lazy = new LazyPostOps(() => makePerformer({ stateStores, allowTargets, webhookSecrets }, parts));
  const isConfigured = [stateStores, allowTargets, webhookSecrets].some(
    (setting) => Object.keys(setting).length > 0,
  );
  if (isConfigured) await lazy.loaded();
  return lazy;
}

async function makePerformer(options: Required<PostOpOptions>, parts: PostOpParts): Promise<Performer> {
  const [{ Performer }, { StateStores }, { parseStateStores }, { WebhookSecrets }, { AllowList }, guards] =
    await Promise.all([
      import("../commands/post-ops/post-op-performer.ts"),
      import("../commands/state/state-stores.ts"),
      import("../commands/state/state-settings.ts"),
      import("../commands/post-ops/webhook-secrets.ts"),
      import("../net/guard/allow-list.ts"),
      import("../net/guard/guarded-http.ts"),
    ]);
  const settings = unwrap(parseStateStores(options.stateStores));
  return new Performer({
    ...parts,
    stateStores: new StateStores({ ...parts, settings }),
    guard: new guards.GuardedHttp({ allow: unwrap(AllowList.parse(options.allowTargets)) }),
    secrets: unwrap(WebhookSecrets.parse(options.webhookSecrets)),
    version: readManifest().version,
  });
}
