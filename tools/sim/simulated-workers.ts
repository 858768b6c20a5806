/**
 * The workers of a simulated run: which ones join, leave, freeze and die, and which code they serve in which versions. The
 * engine notices only after a while that a worker is gone.
 */
import type { Plan } from "../../src/kernel/definition/plan.ts";
import type { Serves } from "../../src/protocol/work.ts";
import { hashText, type SeededRandom } from "../../src/std/random.ts";
import type { EngineHost } from "./engine-host.ts";
import { SimWorker } from "./worker/sim-worker.ts";
import { VERSIONS } from "./workload/versions.ts";
import type { World } from "./world.ts";

export class SimulatedWorkers {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #plans: ReadonlyMap<string, Plan>;
  #workers: SimWorker[] = [];
  #count = 0;
  #isHealed = false;

  constructor(world: World, random: SeededRandom, plans: ReadonlyMap<string, Plan>) {
    this.#world = world;
    this.#random = random;
    this.#plans = plans;
  }

  get hasRemote(): boolean {
    return this.#workers.some((worker) => !worker.local);
  }

  worker(id: string): SimWorker | undefined {
    return this.#workers.find((worker) => worker.id === id);
  }

  /** Called when the node's process has started: workers register, and its local worker starts. */
  nodeOpened({ name }: EngineHost): void {
    if (this.#count === 0) for (let i = this.#random.between(1, 3); i > 0; i--) this.#hire("some");
    if (this.#world.has("local-worker")) this.#hire("local", name);
    for (const worker of this.#workers) worker.join();
  }

  /** Called when the node's process and its local worker have ended. */
  nodeEnded({ name }: EngineHost): void {
    for (const worker of this.#workers.filter(({ local, at }) => local && at === name)) this.#fire(worker);
  }

  /** The name of a worker without a session that is neither frozen nor about to leave; null: there is none. */
  outOfTouch(): string | null {
    const { now } = this.#world.timeline;
    const away = this.#workers.find(
      (worker) => worker.isAway && worker.frozenUntil <= now && !worker.isLeaving,
    );
    return away === undefined ? null : `worker ${away.id} is in touch with no node`;
  }

  /** Kills a worker; another one joins after a while. */
  killOne(): void {
    const worker = this.#anyRemote();
    if (worker !== undefined) this.replace(worker);
  }

  /** Stops a worker gracefully; another one joins. */
  dismissOne(): void {
    const worker = this.#anyRemote();
    if (worker === undefined || worker.isLeaving) return;
    this.#world.trace.note(this.#world.timeline.now, `worker ${worker.id} leaves`);
    worker.leave();
  }

  freezeOne(): void {
    const worker = this.#anyRemote();
    if (worker !== undefined) worker.frozenUntil = this.#world.timeline.now + this.#random.below(5_000);
  }

  replace(worker: SimWorker): void {
    this.#world.trace.note(this.#world.timeline.now, `worker ${worker.id} dies`);
    this.#fire(worker);
    this.#forget(worker, this.#random.between(500, 3_000));
    this.#world.timeline.after(this.#random.below(1_000), () => this.#hire(this.#isHealed ? "all" : "some"));
  }

  /** Called when a leaving worker has finished its work. */
  left(worker: SimWorker): void {
    this.#fire(worker);
    this.#forget(worker, 1);
    this.#hire(this.#isHealed ? "all" : "some");
  }

  /** Ends all faults of workers: none is frozen any more, and all code is served. */
  heal(): void {
    this.#isHealed = true;
    for (const worker of [...this.#workers]) {
      worker.frozenUntil = 0;
      const serves = worker.serves.map((one) => this.#enumerating(one, worker.id));
      if (serves.every(({ enumerates }, i) => enumerates === worker.serves[i]?.enumerates)) continue;
      // The worker comes back with code that matches the definitions.
      if (!worker.local) this.replace(worker);
      else {
        worker.serves = serves;
        worker.join();
      }
    }
    this.#hire("all");
  }

  #anyRemote(): SimWorker | undefined {
    const remote = this.#workers.filter((worker) => !worker.local);
    return remote.length === 0 ? undefined : this.#random.pick(remote);
  }

  #forget({ id, local }: SimWorker, afterMs: number): void {
    if (!local) this.#world.timeline.after(afterMs, () => this.#world.workerGone(id));
  }

  #hire(kind: "some" | "local" | "all", at = ""): void {
    const local = kind === "local";
    const random = this.#random.child(`worker ${this.#count}`);
    const id = `${local ? "local" : "w"}${this.#count++}`;
    const worker = new SimWorker(this.#world, random, {
      id,
      local,
      at,
      serves: this.#serves(random, kind === "all").map((one) => this.#enumerating(one, id)),
      capacity: random.between(1, 6),
      asks: !local && random.chance(0.4),
    });
    this.#workers.push(worker);
    if (!local) worker.join();
  }

  /** All code; some of it only in a few versions. */
  #serves(random: SeededRandom, isAll: boolean): Serves[] {
    const serves: Serves[] = [];
    for (const [use, isVersioned] of this.#uses()) {
      if (!isVersioned) serves.push({ use });
      else if (isAll) for (const version of VERSIONS) serves.push({ use, version });
      else {
        const served = new Set([random.pick(VERSIONS.slice(0, -1)), random.pick(VERSIONS.slice(0, -1))]);
        for (const version of served) serves.push({ use, version });
      }
    }
    return serves;
  }

  /**
   * Code declares that it enumerates if its definition says so. In some runs there are also workers whose code enumerates a
   * handler that has one task by its definition. In others there are workers that only process a handler that enumerates, or
   * that declare nothing.
   */
  #enumerating({ use, version }: Serves, worker: string): Serves {
    const world = this.#world;
    const served = version === undefined ? { use } : { use, version };
    const handlers = [...this.#plans.values()].flatMap(({ phases }) =>
      phases.flatMap((phase) => phase.handlers),
    );
    const { seed } = world.behaviour;
    const kind = world.has("enumerating-workers") ? hashText(`${seed}/enumerating`) % 3 : -1;
    const isDrawn = !this.#isHealed && hashText(`${seed}/enumerates/${use}/${worker}`) % 3 === 0;
    if (handlers.some(({ enumerateUse }) => enumerateUse === use)) {
      if (kind !== 1 || !isDrawn) return { ...served, enumerates: true };
      if (hashText(`${seed}/silent/${use}/${worker}`) % 3 === 0) return served;
      world.count("worker only processes what is enumerated");
      return { ...served, enumerates: false };
    }
    if (kind !== 0 || !isDrawn) return served;
    if (handlers.some((handler) => handler.use === use && handler.mode === "use"))
      world.count("worker enumerates what has one task");
    return { ...served, enumerates: true };
  }

  /** The names of all code, and whether it is served in versions. */
  #uses(): Map<string, boolean> {
    const uses = new Map<string, boolean>();
    const add = (use: string, range: string | null) => {
      const isDrawn = hashText(`${this.#world.behaviour.seed}/versions/${use}`) % 5 === 0;
      if (use !== "") uses.set(use, uses.get(use) === true || range !== null || isDrawn);
    };
    for (const plan of this.#plans.values()) {
      for (const phase of [...plan.phases, ...plan.compensations]) {
        for (const handler of [...phase.handlers, ...(phase.decision ? [phase.decision] : [])]) {
          add(handler.use, handler.wanted.range);
          if (handler.enumerateUse !== null) add(handler.enumerator.use, handler.enumerator.range);
        }
      }
    }
    return uses;
  }

  #fire(worker: SimWorker): void {
    worker.die();
    this.#workers = this.#workers.filter((other) => other !== worker);
  }
}
