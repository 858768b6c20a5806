/**
 * Deletes generated definitions that are not used any more. Submitted documents of commands become definitions whose names contain the
 * hash of their commands; after the last execution of such a definition is deleted, the definition is of no use any more. Each round checks a
 * bounded number of names in order, and the next round continues after them. An unused definition is deleted only after a delay, because
 * a start may be about to use it.
 */
import type { Clock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";

/** The names of generated definitions. */
export interface GeneratedNames {
  /** The common prefix of the names. */
  readonly prefix: string;
  /** Whether a name that begins with the prefix is a generated one. */
  readonly includes: (name: string) => boolean;
}

export interface UnusedDefinitionsOptions {
  readonly clock: Clock;
  readonly store: Pick<
    Store,
    | "listDefinitions"
    | "listHeads"
    | "getDefinition"
    | "putDefinition"
    | "dropDefinition"
    | "listDocuments"
    | "putDocument"
  >;
  readonly generated: GeneratedNames;
  /** Whether this node checks the definitions of this name. In a cluster only one node does. */
  readonly isMine: (name: string) => boolean;
}

/**
 * The kind of documents that name a definition which was replaced by another one of the same name. Such a definition is deleted when its
 * name is not used any more.
 */
const REPLACED = "replaced-definition";

/** Stores a document that says that this definition of a name is about to be replaced. */
export function noteReplaced(
  store: Pick<Store, "putDocument">,
  definition: { readonly name: string; readonly hash: string },
): Promise<void> {
  return store.putDocument(REPLACED, `${definition.name} ${definition.hash}`, "{}");
}

const NAMES_A_ROUND = 200;
const UNUSED_MS = 3_600_000;
const UNUSED_MAX = 10_000;
const REPLACED_MAX = 100;

export class UnusedDefinitions {
  readonly #options: UnusedDefinitionsOptions;
  /** Names of definitions without executions, each with the time at which that was first seen. */
  readonly #unused = new Map<string, number>();
  #after: string;

  constructor(options: UnusedDefinitionsOptions) {
    this.#options = options;
    this.#after = options.generated.prefix;
  }

  /** Checks a bounded number of names, after those of the last round. */
  async round(): Promise<void> {
    const { store, generated, isMine } = this.#options;
    const page = await store.listDefinitions({ after: this.#after, max: NAMES_A_ROUND });
    const names = page.filter(({ name }) => name.startsWith(generated.prefix));
    const isLast = names.length < NAMES_A_ROUND;
    this.#after = isLast ? generated.prefix : (names.at(-1)?.name ?? generated.prefix);
    for (const { name, hash } of names)
      if (generated.includes(name) && isMine(name)) await this.#check(name, hash);
  }

  async #check(name: string, hash: string): Promise<void> {
    const now = this.#options.clock.now();
    if (await this.#isUsed(name)) {
      this.#unused.delete(name);
      return;
    }
    const since = this.#unused.get(name);
    if (since === undefined) {
      if (this.#unused.size < UNUSED_MAX) this.#unused.set(name, now);
      return;
    }
    if (now - since < UNUSED_MS) return;
    this.#unused.delete(name);
    await this.#drop(name, hash);
  }

  async #isUsed(workflow: string): Promise<boolean> {
    return (await this.#options.store.listHeads({ workflow }, { before: null, max: 1 })).length > 0;
  }

  async #drop(name: string, hash: string): Promise<void> {
    const { store } = this.#options;
    const found = await store.getDefinition({ hash });
    const replaced = await store.listDocuments(REPLACED, {
      after: `${name} `,
      before: `${name}!`,
      max: REPLACED_MAX,
    });
    await store.dropDefinition(name, hash);
    // An execution was started with the definition in the meantime, so the definition is stored again.
    if (found !== null && (await this.#isUsed(name))) return store.putDefinition(name, hash, found.body);
    for (const { id } of replaced) {
      await store.dropDefinition(name, id.slice(name.length + 1));
      await store.putDocument(REPLACED, id, null);
    }
  }
}
