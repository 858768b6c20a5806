// At which nodes a worker has sessions: the machine alone, in virtual time.
import { describe, expect, test } from "vitest";
import { effort } from "../../../test/fixtures/long.ts";
import { MembershipWorld, MODES } from "../../../test/fixtures/workers/membership-world-fixture.ts";
import { SeededRandom } from "../../std/random.ts";
import { FIRST, Membership } from "./membership.ts";
import type { MembershipOutput } from "./membership-io.ts";

const A = "http://a";
const B = "http://b";
const C = "http://c";

/** The machine, with registrations answered by hand. */
class MembershipFixture {
  now = 0;
  readonly machine: Membership;
  readonly names = new Map<number, string>();
  readonly said: MembershipOutput[] = [];

  constructor(addresses: readonly string[]) {
    this.machine = new Membership({ addresses, own: null, random: new SeededRandom(1) });
    this.#note(this.machine.begin());
    this.input({ kind: "start" });
  }

  input(input: Parameters<Membership["input"]>[1]): void {
    this.#note(this.machine.input(this.now, input));
  }

  /** The open sessions. */
  get open(): string[] {
    return [...this.names.values()].sort();
  }

  id(name: string): number {
    return [...this.names].find(([, one]) => one === name)?.[0] as number;
  }

  /** Every registration under way at this address is answered. */
  register(address: string, nodes: readonly string[] | null): void {
    for (const { session, request } of this.#asked(address))
      this.input({ kind: "registered", session, request, nodes });
  }

  refuse(address: string, isRefusal = false): void {
    for (const { session, request } of this.#asked(address))
      this.input({ kind: "not-registered", session, request, what: `${address} is away`, isRefusal });
  }

  claims(name: string, nodes: readonly string[]): void {
    this.input({ kind: "answered", session: this.id(name), route: "claim", nodes });
  }

  fails(name: string): void {
    this.input({ kind: "failed", session: this.id(name), route: "claim", what: `${name} is away` });
  }

  pass(ms: number): void {
    const end = this.now + ms;
    while (this.machine.dueAt <= end) {
      this.now = Math.max(this.now, this.machine.dueAt);
      this.input({ kind: "tick" });
    }
    this.now = end;
  }

  #asked(address: string) {
    const asked = this.said.filter((one) => one.kind === "register" && one.address === address);
    for (const one of asked) this.said.splice(this.said.indexOf(one), 1);
    return asked as Extract<MembershipOutput, { kind: "register" }>[];
  }

  #note(outputs: readonly MembershipOutput[]): void {
    for (const output of outputs) {
      this.said.push(output);
      if (output.kind === "open") this.names.set(output.session, output.name);
      if (output.kind === "end") this.names.delete(output.session);
    }
  }
}

/** Sessions at three nodes that name each other. */
function three(): MembershipFixture {
  const fixture = new MembershipFixture([A, B, C]);
  fixture.register(A, [A, B, C]);
  for (const url of [A, B, C]) fixture.register(url, [A, B, C]);
  expect(fixture.open).toEqual([A, B, C]);
  return fixture;
}

describe("a worker", () => {
  test("begins at whichever address answers first, and has a session at each node that is named", () => {
    const fixture = new MembershipFixture([A, B]);
    expect(fixture.open).toEqual([FIRST]);
    fixture.register(B, [B, C]);
    // Until one of them is in touch, the first session stays.
    expect(fixture.open).toEqual([FIRST, B, C].sort());
    fixture.register(C, [B, C]);
    expect(fixture.open).toEqual([B, C]);
  });

  test("keeps the session at its address when the nodes that are named cannot be reached", () => {
    const fixture = new MembershipFixture(["http://balancer"]);
    fixture.register("http://balancer", [A, B]);
    for (let i = 0; i < 20; i++) {
      for (const url of [A, B]) fixture.refuse(url);
      fixture.claims(FIRST, [A, B]);
      fixture.pass(3_000);
    }
    expect(fixture.open).toEqual([FIRST, A, B].sort());
    expect(fixture.machine.isAway).toBe(false);
  });

  test("leaves a node that only names itself, once the others do not name it", () => {
    const fixture = three();
    fixture.claims(B, [B, C]);
    fixture.claims(C, [B, C]);
    expect(fixture.open).toEqual([B, C]);
  });

  test("keeps sessions at nodes that each name only themselves", () => {
    const fixture = three();
    fixture.claims(A, [A]);
    fixture.claims(B, [B]);
    fixture.claims(C, [C]);
    expect(fixture.open.length).toBeGreaterThan(0);
    expect(fixture.machine.inTouch.length).toBeGreaterThan(0);
  });

  test("is not misled by empty lists", () => {
    const fixture = three();
    for (const url of [A, B, C]) fixture.claims(url, []);
    expect(fixture.open).toEqual([A, B, C]);
  });

  test("tries its addresses again when no node is in touch, for as long as it takes", () => {
    const fixture = three();
    for (const url of [A, B, C]) fixture.fails(url);
    expect(fixture.machine.isAway).toBe(true);
    for (let i = 0; i < 100; i++) {
      fixture.pass(3_000);
      for (const url of [A, B, C]) fixture.refuse(url);
    }
    expect(fixture.open).toContain(FIRST);
    fixture.pass(3_000);
    fixture.register(C, [C]);
    expect(fixture.machine.inTouch).toContain(C);
  });

  test("prefers an address that has not failed: one that registers workers and fails their claims keeps nobody", () => {
    const fixture = new MembershipFixture([A, B]);
    fixture.register(A, null);
    fixture.fails(FIRST);
    fixture.pass(200);
    fixture.register(B, null);
    expect(fixture.machine.inTouch).toEqual([B]);
    expect(fixture.said.filter((one) => one.kind === "register" && one.address === A)).toEqual([]);
  });

  test("is told to be refused only if it was never registered and every address refuses it", () => {
    const fixture = new MembershipFixture([A, B]);
    fixture.refuse(A, true);
    fixture.refuse(B, false);
    expect(fixture.said.map(({ kind }) => kind)).not.toContain("refused");
    fixture.pass(5_000);
    fixture.refuse(A, true);
    fixture.pass(5_000);
    fixture.refuse(B, true);
    expect(fixture.said.map(({ kind }) => kind)).toContain("refused");
    const registered = new MembershipFixture([A]);
    registered.register(A, null);
    registered.input({ kind: "failed", session: registered.id(FIRST), route: "heartbeat", what: "403" });
    registered.pass(5_000);
    registered.refuse(A, true);
    expect(registered.said.map(({ kind }) => kind)).not.toContain("refused");
  });

  test("says once that no node is in touch, and once that one is again", () => {
    const fixture = three();
    for (let i = 0; i < 5; i++) for (const url of [A, B, C]) fixture.fails(url);
    fixture.pass(10_000);
    fixture.register(A, [A]);
    fixture.claims(A, [A]);
    const troubles = fixture.said.flatMap((one) => (one.kind === "trouble" ? [one.what !== null] : []));
    expect(troubles).toEqual([true, false]);
  });

  test("has no sessions and no timers once it is closed", () => {
    const fixture = three();
    fixture.input({ kind: "close" });
    expect(fixture.open).toEqual([]);
    expect(fixture.machine.dueAt).toBe(Number.POSITIVE_INFINITY);
  });
});

/** A history of nodes' answers, then one node that is well: the worker must have a session within 15 s of that. */
function history(seed: number): string | null {
  const world = new MembershipWorld(seed);
  const { random } = world;
  world.input({ kind: "start" });
  for (let i = random.between(1, 12); i > 0; i--) {
    world.shuffle();
    world.pass(random.below(random.pick([100, 3_000, 30_000])));
  }
  for (let i = 0; i < world.modes.length; i++)
    world.modes[i] = random.pick(MODES.filter((mode) => mode !== "well" && mode !== "liar"));
  world.modes[random.below(world.modes.length)] = "well";
  return world.pass(15_000, () => world.isServed) ? null : `seed ${seed}: ${world.modes.join(", ")}`;
}

test("within 15 s of one healthy node a worker has a session, whatever nodes answered before", {
  timeout: 600_000,
}, () => {
  const histories = effort({ usual: 400, long: 10_000 });
  const failed = Array.from({ length: histories }, (_, seed) => history(seed)).filter((one) => one !== null);
  expect(failed).toEqual([]);
});
