/**
 * The sessions of a simulated worker at the nodes of a cluster: the real membership machine over a network that loses, delays
 * and cuts messages, and sometimes with answers that no node should give.
 */
import type { SeededRandom } from "../../../src/std/random.ts";
import { Membership } from "../../../src/worker/http/membership.ts";
import type { MembershipInput, MembershipOutput } from "../../../src/worker/http/membership-io.ts";
import type { NodeWorkers, SimRegistration } from "../node-workers.ts";
import type { World } from "../world.ts";

export interface SimSessionsOptions {
  readonly world: World;
  readonly random: SeededRandom;
  readonly registration: SimRegistration;
  /** Runs something later, when the worker is not frozen, if it lives. */
  readonly later: (ms: number, run: () => void) => void;
  /** A session was registered, so the worker claims there. */
  readonly onReady: () => void;
}

/** The answer of a node: the nodes that it names, that it does not know the worker, or garbage. */
type Answer = readonly string[] | "unknown" | "garbage";

const REGISTER_MS = 1_000;
const CLAIM_MS = 1_000;

export class SimSessions {
  readonly #options: SimSessionsOptions;
  readonly #machine: Membership;
  /** The addresses of registered sessions, by number. */
  readonly #ready = new Map<number, string>();
  #tickAt = Number.POSITIVE_INFINITY;

  constructor(options: SimSessionsOptions) {
    this.#options = options;
    const { world, random } = options;
    this.#machine = new Membership({ addresses: world.site.urls, own: null, random });
    this.#perform(this.#machine.begin());
    this.#input({ kind: "start" });
  }

  get isAway(): boolean {
    return this.#machine.inTouch.length === 0;
  }

  /** Claims at every node, with the worker's present room. */
  claim(max: number): void {
    for (const [session, url] of this.#ready) {
      const ended = (answer: Answer | null): void => {
        if (answer === "unknown") this.#input({ kind: "forgotten", session });
        else if (answer === null || answer === "garbage")
          this.#input({ kind: "failed", session, route: "claim", what: `${url}does not answer` });
        else this.#input({ kind: "answered", session, route: "claim", nodes: answer });
      };
      this.#ask(
        url,
        CLAIM_MS,
        (workers) => workers.claim(this.#options.registration.worker, max) ?? "unknown",
        ended,
      );
    }
  }

  #input(input: MembershipInput): void {
    const { world } = this.#options;
    this.#perform(this.#machine.input(world.timeline.now, input));
    const { dueAt } = this.#machine;
    if (dueAt >= this.#tickAt) return;
    this.#tickAt = dueAt;
    this.#options.later(Math.max(0, dueAt - world.timeline.now), () => {
      this.#tickAt = Number.POSITIVE_INFINITY;
      this.#input({ kind: "tick" });
    });
  }

  #perform(outputs: readonly MembershipOutput[]): void {
    const { registration, onReady, world } = this.#options;
    for (const output of outputs) {
      if (output.kind === "register") this.#register(output);
      else if (output.kind === "end" || output.kind === "not-ready") this.#ready.delete(output.session);
      else if (output.kind === "trouble" && output.what !== null) world.count("worker out of touch");
      else if (output.kind === "ready") {
        this.#ready.set(output.session, output.address);
        world.trace.note(world.timeline.now, `${registration.worker} has a session at ${output.address}`);
        onReady();
      }
    }
  }

  #register({ session, request, address }: Extract<MembershipOutput, { kind: "register" }>): void {
    const { registration } = this.#options;
    this.#ask(
      address,
      REGISTER_MS,
      (workers) => workers.register(registration),
      (answer) => {
        if (answer !== null && typeof answer !== "string")
          return this.#input({ kind: "registered", session, request, nodes: answer });
        this.#input({ kind: "not-registered", session, request, what: "no answer", isRefusal: false });
      },
    );
  }

  /** Sends a request to a node; null: no answer in time. */
  #ask(
    url: string,
    timeoutMs: number,
    ask: (workers: NodeWorkers) => Answer,
    answered: (answer: Answer | null) => void,
  ): void {
    const { world, later, registration } = this.#options;
    let isOver = false;
    const end = (answer: Answer | null): void => {
      if (isOver) return;
      isOver = true;
      answered(answer);
    };
    const answer = (workers: NodeWorkers) => this.#bend(ask(workers), url);
    world.site.askNode({ worker: registration.worker, url, random: this.#options.random }, answer, (given) =>
      later(0, () => end(given)),
    );
    later(timeoutMs, () => end(null));
  }

  /** Sometimes replaces an answer: by garbage, no nodes, only the node itself, or any nodes. */
  #bend(answer: Answer, url: string): Answer {
    const { world, random } = this.#options;
    if (!world.has("odd-answers") || !random.chance(0.1)) return answer;
    world.count("odd answer to a worker");
    const some = world.site.urls.filter(() => random.chance(0.4));
    return random.pick<Answer>(["garbage", "unknown", [], [url], [url], some]);
  }
}
