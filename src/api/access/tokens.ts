/**
 * API tokens: made here, shown once, kept as hashes in the store's documents. A token reads `rondo_<id>_<secret>`: the
 * id finds it, the secret (32 random bytes) is compared by its hash in constant time. One more may come from the
 * environment (RONDO_ADMIN_TOKEN); it is not stored.
 */
import type { Clock } from "../../std/clock.ts";
import { newExecutionId } from "../../std/id.ts";
import type { Random } from "../../std/random.ts";
import type { Store } from "../../store/store.ts";
import type { Role } from "./caller.ts";
import { drawSecret, hashSecret, isSameSecret } from "./secrets.ts";

/** A token as others may see it. */
export interface Token {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  /** The project that it is bound to; null: none. */
  readonly project: string | null;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly expiresAt: number | null;
}

interface StoredToken extends Token {
  readonly hash: string;
}

export interface TokenParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  /** RONDO_ADMIN_TOKEN. */
  readonly adminToken: string | null;
}

const KIND = "token";
/** The id of the token from the environment. */
const FROM_ENVIRONMENT = "env";

export class TokenDesk {
  readonly #parts: TokenParts;
  readonly #tokens = new Map<string, StoredToken>();

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

  /** With all tokens of the store. */
  static async open(parts: TokenParts): Promise<TokenDesk> {
    const desk = new TokenDesk(parts);
    let after: string | undefined;
    for (;;) {
      const page = await parts.store.listDocuments(KIND, {
        max: 1_000,
        ...(after === undefined ? {} : { after }),
      });
      for (const { body } of page) {
        const token = JSON.parse(body) as StoredToken;
        desk.#tokens.set(token.id, token);
      }
      after = page.at(-1)?.id;
      if (page.length < 1_000) return desk;
    }
  }

  /** Whether there is any: then every request over TCP needs one. */
  get any(): boolean {
    return this.#tokens.size > 0;
  }

  /** The token that a text is; null: none, or one that has expired. */
  find(text: string): Token | null {
    const id = /^rondo_([0-9a-z]{1,40})_/.exec(text)?.[1];
    const hash = hashSecret(text);
    for (const candidate of [id, FROM_ENVIRONMENT]) {
      const token = candidate === undefined ? undefined : this.#tokens.get(candidate);
      if (token !== undefined && isSameSecret(hash, token.hash)) return this.#unlessExpired(token);
    }
    return null;
  }

  /** A token by its id; null: there is none, or it has expired. */
  get(id: string): Token | null {
    const token = this.#tokens.get(id);
    return token === undefined ? null : this.#unlessExpired(token);
  }

  /** All tokens, oldest first, without what proves them. */
  list(): readonly Token[] {
    return [...this.#tokens.values()]
      .map(({ hash: _, ...token }) => token)
      .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  /** Makes a token; its text is given out here and never again. */
  async create(
    wanted: Pick<Token, "name" | "role" | "project" | "createdBy" | "expiresAt">,
  ): Promise<{ token: Token; text: string }> {
    const { store, clock, random } = this.#parts;
    const id = newExecutionId(clock.now(), random).slice(3);
    const text = `rondo_${id}_${drawSecret(random, 32).toString("base64url")}`;
    const token: Token = { id, createdAt: clock.now(), ...wanted };
    const stored: StoredToken = { ...token, hash: hashSecret(text) };
    await store.putDocument(KIND, id, JSON.stringify(stored));
    this.#tokens.set(id, stored);
    return { token, text };
  }

  /** Revokes a token of the store; false: there is none of that id. */
  async remove(id: string): Promise<boolean> {
    if (id === FROM_ENVIRONMENT || !this.#tokens.has(id)) return false;
    await this.#parts.store.putDocument(KIND, id, null);
    return this.#tokens.delete(id);
  }

  #unlessExpired({ hash: _, ...token }: StoredToken): Token | null {
    return token.expiresAt === null || token.expiresAt > this.#parts.clock.now() ? token : null;
  }
}
