/**
 * API tokens. A token is shown once and stored as a hash. It has the form `rondo_<id>_<secret>`: the id finds it, and the
 * secret (32 random bytes) is compared by its hash in constant time. RONDO_ADMIN_TOKEN gives one more, which is not stored.
 * In a cluster, tokens that another node creates or revokes are known here within a few seconds. An unknown token is refused
 * only after the store was read again.
 */
import { guardedBy, TOKEN_FORM } from "../../commands/bound-projects.ts";
import type { Clock } from "../../std/clock.ts";
import { newExecutionId } from "../../std/id.ts";
import type { Random } from "../../std/random.ts";
import { allDocuments, type DocumentForm, describeDamaged } from "../../store/document-form.ts";
import type { DocumentStore } from "../../store/store.ts";
import type { Token, TokenList } from "../schemas/admin.ts";
import { FreshCopy } from "./fresh-copy.ts";
import { drawSecret, hashSecret, isSameSecret } from "./secrets.ts";

interface StoredToken extends Token {
  readonly hash: string;
}

type DamagedToken = NonNullable<TokenList["damaged"]>[number];

export interface TokenParts {
  readonly store: DocumentStore;
  readonly clock: Clock;
  readonly random: Random;
  /** The environment variable RONDO_ADMIN_TOKEN. */
  readonly adminToken: string | null;
  /** Whether other nodes of a cluster create and revoke tokens too. */
  readonly isShared?: boolean;
  readonly onFault?: (fault: Error) => void;
}

const KIND = "token";
/** The id of the token that RONDO_ADMIN_TOKEN gives. */
const FROM_ENVIRONMENT = "env";
const STORED = TOKEN_FORM as DocumentForm<StoredToken>;
const FORM = /^rondo_([0-9a-z]{1,40})_/;

export class Tokens {
  readonly #parts: TokenParts;
  #tokens = new Map<string, StoredToken>();
  /** Damaged tokens. They are not accepted, but projects that they are bound to still count as bound. */
  #damaged = new Map<string, DamagedToken>();
  /**
   * The number of changes of tokens made at this node. If a change happens during a read of the store, the read is repeated.
   */
  #changes = 0;
  #copy: FreshCopy | null = null;
  /** Called with the id of each token that another node has revoked. */
  onRevoked: (id: string) => void = () => undefined;
  #onBound: (projects: ReadonlySet<string>) => void = () => undefined;

  private constructor(parts: TokenParts) {
    this.#parts = parts;
    const { adminToken, clock } = parts;
    if (adminToken !== null)
      this.#tokens.set(FROM_ENVIRONMENT, {
        id: FROM_ENVIRONMENT,
        name: "RONDO_ADMIN_TOKEN",
        role: "admin",
        project: null,
        createdAt: clock.now(),
        createdBy: "environment",
        expiresAt: null,
        hash: hashSecret(adminToken),
      });
  }

  static async open(parts: TokenParts): Promise<Tokens> {
    const tokens = new Tokens(parts);
    await tokens.#read();
    const { clock, isShared = false, onFault = () => undefined } = parts;
    if (isShared) tokens.#copy = new FreshCopy({ clock, read: () => tokens.#read(), onFault });
    return tokens;
  }

  /** Calls `listener` with the projects that tokens are bound to, at once and after each change. */
  set onBound(listener: (projects: ReadonlySet<string>) => void) {
    this.#onBound = listener;
    this.#noteBound();
  }

  /** Resolves when all earlier changes by other nodes are known here; returns null if there are no other nodes. */
  renew(): Promise<void> | null {
    return this.#copy?.renew() ?? null;
  }

  close(): void {
    this.#copy?.close();
  }

  /** Whether any token exists, also a damaged one. If so, requests over TCP need a token, except on routes with the access `everyone`. */
  get any(): boolean {
    return this.#tokens.size + this.#damaged.size > 0;
  }

  /** Whether there is an admin token that never expires. */
  get hasAdmin(): boolean {
    return this.list().some(
      ({ role, project, expiresAt }) => role === "admin" && project === null && expiresAt === null,
    );
  }

  /** The valid token with this text; null if there is none. */
  find(text: string): Token | null {
    const id = FORM.exec(text)?.[1];
    const hash = hashSecret(text);
    for (const candidate of [id, FROM_ENVIRONMENT]) {
      const token = candidate === undefined ? undefined : this.#tokens.get(candidate);
      if (token !== undefined && isSameSecret(hash, token.hash)) return this.#unlessExpired(token);
    }
    return null;
  }

  /** A valid token by its id; null if there is none. */
  get(id: string): Token | null {
    const token = this.#tokens.get(id);
    return token === undefined ? null : this.#unlessExpired(token);
  }

  /** All tokens, oldest first, without their secrets. */
  list(): readonly Token[] {
    return [...this.#tokens.values()]
      .map(({ hash: _, ...token }) => token)
      .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  get damaged(): readonly DamagedToken[] {
    return [...this.#damaged.values()];
  }

  /** Creates a token. Its text is returned here and never again. */
  async create(
    wanted: Pick<Token, "name" | "role" | "project" | "createdBy" | "expiresAt">,
  ): Promise<{ token: Token; text: string }> {
    const { store, clock, random } = this.#parts;
    const id = newExecutionId(clock.now(), random).slice(3);
    const text = `rondo_${id}_${drawSecret(random, 32).toString("base64url")}`;
    const token: Token = { id, createdAt: clock.now(), ...wanted };
    const stored: StoredToken = { ...token, hash: hashSecret(text) };
    await store.putDocument(KIND, id, JSON.stringify(stored));
    this.#changes++;
    this.#tokens.set(id, stored);
    this.#noteBound();
    return { token, text };
  }

  /** Revokes a stored token; false if there is none with this id. */
  async remove(id: string): Promise<boolean> {
    if (id === FROM_ENVIRONMENT || !(this.#tokens.has(id) || this.#damaged.has(id))) return false;
    await this.#parts.store.putDocument(KIND, id, null);
    this.#changes++;
    this.#tokens.delete(id);
    this.#damaged.delete(id);
    this.#noteBound();
    this.onRevoked(id);
    return true;
  }

  /** Reads all tokens of the store. Tokens that are no longer stored become invalid. */
  async #read(): Promise<void> {
    const read = new Map<string, StoredToken>();
    const changes = this.#changes;
    const fromEnvironment = this.#tokens.get(FROM_ENVIRONMENT);
    if (fromEnvironment !== undefined) read.set(FROM_ENVIRONMENT, fromEnvironment);
    const damaged = new Map<string, DamagedToken>();
    for await (const token of allDocuments(this.#parts.store, STORED))
      if (token.damage === undefined) read.set(token.id, token.value);
      else damaged.set(token.id, damagedToken(token));
    if (changes !== this.#changes) return this.#read();
    const gone = [...this.#tokens.keys()].filter((id) => !read.has(id));
    for (const [id, { damage, hint }] of damaged)
      if (!this.#damaged.has(id)) this.#parts.onFault?.(new Error(`a token is damaged: ${damage} (${hint})`));
    this.#tokens = read;
    this.#damaged = damaged;
    this.#noteBound();
    for (const id of gone) this.onRevoked(id);
  }

  #noteBound(): void {
    const bound = [...this.#tokens.values()].flatMap(({ project }) => project ?? []);
    const guarded = this.damaged.flatMap(({ guards }) => guards ?? []);
    this.#onBound(new Set([...bound, ...guarded]));
  }

  #unlessExpired({ hash: _, ...token }: StoredToken): Token | null {
    return token.expiresAt === null || token.expiresAt > this.#parts.clock.now() ? token : null;
  }
}

function damagedToken(token: {
  readonly id: string;
  readonly body: string;
  readonly damage: string;
}): DamagedToken {
  return {
    id: token.id,
    damage: describeDamaged(KIND, token),
    hint: `the token is not accepted any more: revoke it (rondo token revoke ${token.id}) and create another one`,
    guards: guardedBy(token.body),
  };
}

/** Whether a text has the form of a stored token. */
export function mayBeToken(text: string | null): boolean {
  return text !== null && FORM.test(text);
}
