import type { RingView } from "../../cluster/ring/io.ts";
import type { AllNodes } from "../other-nodes.ts";

type TokenShown = RingView["token"];

/**
 * Where the token is: a node knows of it when it has it and to whom it gave it, so whoever saw it last knows. The others are
 * asked meanwhile, and what they say counts from the next look on: nobody waits for a node that does not answer.
 */
export class TokenSightings {
  readonly #allNodes: Pick<AllNodes, "ask">;
  #newest: TokenShown = null;
  #isAsking = false;

  constructor(allNodes: Pick<AllNodes, "ask">) {
    this.#allNodes = allNodes;
  }

  look(own: TokenShown): TokenShown {
    if (own === null) return null;
    this.#note(own);
    if (!this.#isAsking) {
      this.#isAsking = true;
      void this.#ask();
    }
    return this.#newest;
  }

  async #ask(): Promise<void> {
    // It does not throw: nodes that do not answer are left out.
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
