/**
 * Forgets definitions that were made for one thing: documents of commands become definitions that are named by their
 * content, and once the last execution of one is forgotten nobody asks for it any more. A round looks at so many names, in
 * their order, and the next goes on there. What is not used goes after a while, so that whoever is about to use it can.
 */
import type { Clock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";

/** Which names of workflows are of such definitions. */
export interface MadeNames {
  /** What all of them begin with. */
  readonly prefix: string;
  readonly isOne: (name: string) => boolean;
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
  readonly made: MadeNames;
  /** Whether a name is this node's to look at. */
  readonly isMine: (name: string) => boolean;
}

/** The definition of a name that another one has taken the place of: it goes with the name. */
const REPLACED = "replaced-definition";

/** Notes that this definition of a name is about to be replaced. */
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
  /** Names without executions, with when that was first seen. */
  readonly #unused = new Map<string, number>();
  #after: string;

  constructor(options: UnusedDefinitionsOptions) {
    this.#options = options;
    this.#after = options.made.prefix;
  }

  /** Looks at some of them. */
  async round(): Promise<void> {
    const { store, made, isMine } = this.#options;
    const page = await store.listDefinitions({ after: this.#after, max: NAMES_A_ROUND });
    const names = page.filter(({ name }) => name.startsWith(made.prefix));
    const isLast = names.length < NAMES_A_ROUND;
    this.#after = isLast ? made.prefix : (names.at(-1)?.name ?? made.prefix);
    for (const { name, hash } of names) if (made.isOne(name) && isMine(name)) await this.#look(name, hash);
  }

  async #look(name: string, hash: string): Promise<void> {
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
    // Somebody has begun with it just now: it is there again before it is needed.
    if (found !== null && (await this.#isUsed(name))) return store.putDefinition(name, hash, found.body);
    for (const { id } of replaced) {
      await store.dropDefinition(name, id.slice(name.length + 1));
      await store.putDocument(REPLACED, id, null);
    }
  }
}
