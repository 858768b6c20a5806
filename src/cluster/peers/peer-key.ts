/** Authenticates nodes: each request is signed with the cluster's secret. A request that is recorded and sent again does no harm. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { sha256 } from "../../std/hash.ts";
import type { StoreInfo } from "../../store/store.ts";

export interface Signed {
  readonly path: string;
  readonly from: string;
  readonly digest: string;
}

export class PeerKey {
  readonly #key: Buffer;

  /** `secret` is the shared secret of all nodes; null to use the key in the store. */
  constructor(secret: string | null, { key, generation }: Pick<StoreInfo, "key" | "generation">) {
    // The key depends on the store's generation. A restored copy of a store has another generation, so its nodes and those of the
    // original refuse each other.
    this.#key = createHmac("sha256", secret ?? key)
      .update(`rondo peer 1\n${generation}`)
      .digest();
  }

  /** The token with which workers inside nodes authenticate at the other nodes. It gives the rights of a worker only. */
  get workerToken(): string {
    return `node_${createHmac("sha256", this.#key).update("worker").digest("base64url")}`;
  }

  /** A hash of the cluster's secret. Nodes compare the hashes. */
  get check(): string {
    return createHmac("sha256", this.#key).update("check").digest("base64url");
  }

  sign({ path, from, digest }: Signed): string {
    return createHmac("sha256", this.#key).update(`${path}\n${from}\n${digest}`).digest("base64url");
  }

  isSignedBy(signed: Signed, signature: string): boolean {
    const [right, given] = [Buffer.from(this.sign(signed)), Buffer.from(signature)];
    return right.length === given.length && timingSafeEqual(right, given);
  }
}

export function digestOf(body: string): string {
  return sha256(body);
}
