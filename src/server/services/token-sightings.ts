import type { RingView } from "../../cluster/ring/io.ts";
import type { AllNodes } from "../other-nodes.ts";

type TokenShown = RingView["token"];

/** Finds where the ring's token was seen last. The other nodes are asked in the background. */
export class TokenSightings {
  readonly #allNodes: Pick<AllNodes, "ask">;
  #newest: TokenShown = null;
  #isAsking = false;

  constructor(allNodes: Pick<AllNodes, "ask">) {
    this.#allNodes = allNodes;
  }

  lastSeen(own: TokenShown): TokenShown {
    if (own === null) return null;
    this.#note(own);
    if (!this.#isAsking) {
      this.#isAsking = true;
      void this.#ask();
    }
    return this.#newest;
  }

  async #ask(): Promise<void> {
    // `ask` never throws: nodes that do not answer are left out.
    const { nodes } = await this.#allNodes.ask({ token: true });
    for (const { token = null } of nodes) this.#note(token);
    this.#isAsking = false;
  }

  #note(token: TokenShown): void {
    const known = this.#newest;
    if (token === null) return;
    const isOlder =
      known !== null &&
      (token.epoch === known.epoch ? token.number < known.number : token.epoch < known.epoch);
    if (!isOlder) this.#newest = token;
  }
}
