/**
 * How nodes of one cluster know each other: every request is signed with the cluster's secret over where it goes, who
 * sends it and what is in it. The secret itself never travels. A request that is sent again by somebody who overheard it
 * does no harm, since all that nodes tell each other can come twice.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { sha256 } from "../../std/hash.ts";
import type { StoreInfo } from "../../store/store.ts";

/** What is signed of a request. */
export interface Signed {
  readonly path: string;
  /** The sender's URL. */
  readonly from: string;
  /** SHA-256 of the body. */
  readonly digest: string;
}

export class PeerKey {
  readonly #key: Buffer;

  /** `secret`: what all nodes were given, or null to use the key that the store keeps. */
  constructor(secret: string | null, { key, generation }: Pick<StoreInfo, "key" | "generation">) {
    // Nodes of a store that was restored from a copy are strangers to those of the store that it was copied from.
    this.#key = createHmac("sha256", secret ?? key)
      .update(`rondo peer 1\n${generation}`)
      .digest();
  }

  /** What the workers inside nodes show to the other nodes: it opens what a worker may do, and nothing else. */
  get workerToken(): string {
    return `node_${createHmac("sha256", this.#key).update("worker").digest("base64url")}`;
  }

  /** Stands for the secret where it is compared, and does not tell it. */
  get check(): string {
    return createHmac("sha256", this.#key).update("check").digest("base64url");
  }

  sign({ path, from, digest }: Signed): string {
    return createHmac("sha256", this.#key).update(`${path}\n${from}\n${digest}`).digest("base64url");
  }

  /** Whether the signature is right, in a time that does not depend on where it differs. */
  isSignedBy(signed: Signed, signature: string): boolean {
    const [right, given] = [Buffer.from(this.sign(signed)), Buffer.from(signature)];
    return right.length === given.length && timingSafeEqual(right, given);
  }
}

/** What a signature covers of a body. */
export function digestOf(body: string): string {
  return sha256(body);
}
