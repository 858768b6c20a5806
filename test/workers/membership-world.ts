/**
 * The membership machine of one worker in virtual time, against nodes that die, stall, answer with garbage and name any
 * nodes at all. The driver's part is played here: registration requests, claims, probes and their time-outs.
 */

import { Heap } from "../../src/std/heap.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { Membership } from "../../src/worker/http/membership.ts";
import type { MembershipInput, MembershipOutput } from "../../src/worker/http/membership-io.ts";

/**
 * How a node behaves: it answers and names the nodes that are well; answers and names any nodes; is dead; takes requests and
 * never answers; answers garbage; registers workers and garbles claims; registers workers and never knows them; or does something else each time.
 */
export const MODES = [
  "well",
  "liar",
  "dead",
  "stalled",
  "garbled",
  "no-claims",
  "amnesiac",
  "random",
] as const;
export type Mode = (typeof MODES)[number];

const REGISTER_MS = 4_000;
const CLAIM_MS = 5_000;
const CLAIM_MARGIN_MS = 5_000;

export class MembershipWorld {
  now = 1_000_000;
  readonly urls: readonly string[];
  readonly modes: Mode[];
  readonly machine: Membership;
  /** Sessions that are open, by number: their names. */
  readonly sessions = new Map<number, string>();
  readonly random: SeededRandom;
  readonly #address = new Map<number, string>();
  /** Addresses whose last claim was answered. */
  readonly #claimed = new Set<string>();
  readonly #backOffs = new Map<number, number>();
  readonly #heap = new Heap<{ at: number; order: number; run: () => void }>(
    (a, b) => a.at < b.at || (a.at === b.at && a.order < b.order),
  );
  #order = 0;

  constructor(seed: number, options: { readonly nodes?: number; readonly addresses?: number } = {}) {
    this.random = new SeededRandom(seed);
    const count = options.nodes ?? this.random.between(1, 5);
    this.urls = Array.from({ length: count }, (_, i) => `http://n${i}`);
    this.modes = this.urls.map(() => "well");
    const addresses = this.urls.slice(0, options.addresses ?? count);
    this.machine = new Membership({ addresses, own: null, random: this.random.child("machine") });
    this.#perform(this.machine.begin());
  }

  input(input: MembershipInput): void {
    this.#perform(this.machine.input(this.now, input));
  }

  after(ms: number, run: () => void): void {
    this.#heap.push({ at: this.now + ms, order: this.#order++, run });
  }

  /** Lets time pass; `look` is called after everything that happens, and true ends it. */
  pass(ms: number, look: () => boolean = () => false): boolean {
    const end = this.now + ms;
    while (!look()) {
      const next = this.#heap.peek();
      const due = Math.max(this.now, this.machine.dueAt);
      if (Math.min(next?.at ?? end + 1, due) > end) {
        this.now = end;
        return look();
      }
      if (next !== undefined && next.at <= due) {
        this.#heap.pop();
        this.now = Math.max(this.now, next.at);
        next.run();
      } else {
        this.now = due;
        this.input({ kind: "tick" });
      }
    }
    return true;
  }

  /** Whether the worker has a session at a node that gives out work. */
  get isServed(): boolean {
    return this.machine.inTouch.some((url) => {
      const mode = this.modes[this.urls.indexOf(url)];
      return mode === "well" || mode === "liar" || (mode === "random" && this.#claimed.has(url));
    });
  }

  /** Any node may behave otherwise from now on. */
  shuffle(): void {
    for (let i = 0; i < this.modes.length; i++)
      if (this.random.chance(0.5)) this.modes[i] = this.random.pick(MODES);
  }

  #perform(outputs: readonly MembershipOutput[]): void {
    for (const output of outputs) {
      switch (output.kind) {
        case "open":
          this.sessions.set(output.session, output.name);
          break;
        case "end":
          this.sessions.delete(output.session);
          this.#address.delete(output.session);
          break;
        case "register":
          this.#register(output);
          break;
        case "ready":
          this.#address.set(output.session, output.address);
          this.#claim(output.session, 0);
          break;
        case "not-ready":
          this.#address.delete(output.session);
          break;
        default:
      }
    }
  }

  #register({ session, request, address }: Extract<MembershipOutput, { kind: "register" }>): void {
    const mode = this.#modeOf(address);
    const fail = (ms: number) =>
      this.after(ms, () =>
        this.input({
          kind: "not-registered",
          session,
          request,
          what: mode,
          isRefusal: this.random.chance(0.3),
        }),
      );
    const ms = this.random.below(30);
    if (mode === "dead" || mode === "garbled") return fail(ms);
    if (mode === "stalled") return fail(REGISTER_MS);
    this.after(ms, () =>
      this.input({ kind: "registered", session, request, nodes: this.#named(address, mode) ?? null }),
    );
  }

  /** One claim after another, as the driver sends them. */
  #claim(session: number, waitMs: number): void {
    const address = this.#address.get(session);
    if (address === undefined) return;
    const mode = this.#modeOf(address);
    const isStalled = mode === "stalled";
    const ms = isStalled ? waitMs + CLAIM_MARGIN_MS : mode === "dead" ? 1 : this.random.below(20) + waitMs;
    this.after(ms, () => {
      if (!this.sessions.has(session)) return;
      // Whoever waited for a node gets the answer of what that is by then.
      const now = isStalled || mode === "dead" ? mode : this.#modeOf(address);
      const isAnswered = now === "well" || now === "liar";
      if (now === "amnesiac") this.input({ kind: "forgotten", session });
      else if (!isAnswered) this.input({ kind: "failed", session, route: "claim", what: now });
      else {
        const nodes = this.#named(address, now);
        this.input({ kind: "answered", session, route: "claim", ...(nodes === undefined ? {} : { nodes }) });
      }
      if (isAnswered) this.#claimed.add(address);
      else this.#claimed.delete(address);
      this.#claimAgain(session, isAnswered);
    });
  }

  #claimAgain(session: number, isAnswered: boolean): void {
    if (isAnswered) this.#backOffs.delete(session);
    else this.#backOffs.set(session, Math.min(10_000, (this.#backOffs.get(session) ?? 50) * 2));
    this.after(this.#backOffs.get(session) ?? 100, () => {
      if (this.#address.has(session)) this.#claim(session, isAnswered ? CLAIM_MS : 0);
    });
  }

  #modeOf(url: string): Mode {
    const mode = this.modes[this.urls.indexOf(url)] ?? "dead";
    return mode === "random" ? this.random.pick(MODES.filter((one) => one !== "random")) : mode;
  }

  /** The nodes that a node names. */
  #named(url: string, mode: Mode): readonly string[] | undefined {
    if (this.urls.length === 1 && mode === "well") return undefined;
    if (mode === "well") return this.urls.filter((one) => one === url || this.#modeOf(one) === "well");
    const some = this.urls.filter(() => this.random.chance(0.5));
    const { random } = this;
    return random.pick([
      [],
      [url],
      some,
      this.urls,
      [...some, `http://unknown${random.below(9)}`],
      undefined,
    ]);
  }
}
