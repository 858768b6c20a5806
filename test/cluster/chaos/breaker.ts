/**
 * Breaks a cluster by one seed: the decisions are its, the timing is the machine's. Each second one thing: a process is
 * killed and comes back a moment later, one is frozen for longer than a lease, PostgreSQL goes in one of three ways and
 * comes back, connections to it are cut. `heal` ends all of that.
 */
import type { SeededRandom } from "../../../src/std/random.ts";
import type { ClusterFixture, NodePlace } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import type { FaultProcess } from "../../fixtures/faults/fault-process-fixture.ts";
import type { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";

const KINDS = [
  ...Array.from({ length: 10 }, () => "kill -9" as const),
  ...Array.from({ length: 3 }, () => "SIGSTOP" as const),
  "SIGTERM node" as const,
  "SIGTERM worker" as const,
  ...Array.from({ length: 2 }, () => "cut connections" as const),
  "PostgreSQL" as const,
];

/** How a process ends whose database or server is away. */
const UNREACHABLE = 6;

export interface BreakerOptions {
  readonly server: PostgresServer;
  readonly workers: number;
  readonly leaseMs: number;
  readonly say: (line: string) => void;
}

export class Breaker {
  /** How often each was done. */
  readonly faults: Record<string, number> = {};
  /** What must not have happened meanwhile. */
  readonly wrong: string[] = [];
  readonly #fixture: ClusterFixture;
  readonly #random: SeededRandom;
  readonly #options: BreakerOptions;
  /** Faults whose end comes later. */
  readonly #healing = new Set<Promise<void>>();
  readonly #frozen = new Set<FaultProcess>();
  /** Processes whose end is accounted for. */
  readonly #known = new Set<FaultProcess>();
  readonly #starting = new Set<NodePlace>();
  #isDatabaseUp = true;
  #restarts = 0;
  #isHealing = false;

  constructor(fixture: ClusterFixture, random: SeededRandom, options: BreakerOptions) {
    this.#fixture = fixture;
    this.#random = random;
    this.#options = options;
  }

  /** Breaks something. */
  break(): void {
    const kind = this.#random.pick(KINDS);
    switch (kind) {
      case "kill -9":
        return this.#kill();
      case "SIGSTOP":
        return this.#freeze();
      case "SIGTERM node":
        return this.#terminateNode();
      case "SIGTERM worker":
        return this.#terminateWorker();
      case "cut connections":
        return this.#later(() => this.#cut());
      case "PostgreSQL":
        if (this.#isDatabaseUp) this.#later(() => this.#restartDatabase());
    }
  }

  /** Everything is there again, and works. */
  async heal(): Promise<void> {
    this.#isHealing = true;
    for (const frozen of this.#frozen) frozen.signal("SIGCONT");
    while (this.#healing.size > 0) await Promise.all(this.#healing);
    for (const place of this.#fixture.nodes) if (!place.isUp) await this.#fixture.startNode(place);
    await this.#hire();
  }

  #kill(): void {
    const nodes = this.#fixture.nodes.filter(({ process }) => process !== null && this.#isWell(process));
    const workers = this.#fixture.workers().filter((worker) => this.#isWell(worker));
    const victims = [...nodes, ...workers];
    if (victims.length === 0) return;
    const victim = this.#random.pick(victims);
    const restMs = this.#random.between(100, 1_500);
    this.#count(`kill -9 ${"port" in victim ? "node" : "worker"}`);
    this.#later(async () => {
      if ("port" in victim) {
        await victim.running.kill();
        await this.#passed(restMs);
        await this.#start(victim);
      } else {
        await victim.kill();
        await this.#passed(restMs);
        await this.#hire();
      }
    });
  }

  /** Longer than a lease, so that somebody else has what it had. */
  #freeze(): void {
    const nodes = this.#fixture.nodes.flatMap(({ process }) => process ?? []);
    const all = [...nodes, ...this.#fixture.workers()].filter((one) => this.#isWell(one));
    if (all.length === 0) return;
    const victim = this.#random.pick(all);
    this.#count(`SIGSTOP ${victim.args[0] === "worker" ? "worker" : "node"}`);
    const ms = this.#options.leaseMs + this.#random.between(500, 3_000);
    this.#frozen.add(victim);
    victim.signal("SIGSTOP");
    this.#later(async () => {
      await this.#passed(ms);
      this.#frozen.delete(victim);
      victim.signal("SIGCONT");
    });
  }

  #terminateNode(): void {
    const places = this.#fixture.nodes.filter(({ process }) => process !== null && this.#isWell(process));
    if (places.length === 0) return;
    const place = this.#random.pick(places);
    this.#count("SIGTERM node");
    const restarts = this.#restarts - (this.#isDatabaseUp ? 0 : 1);
    this.#later(async () => {
      const { code, signal } = await place.running.terminate();
      // It may be killed or frozen while it ends; and what it has, it hands over through the database only.
      const mayFail = code === UNREACHABLE && this.#restarts > restarts;
      if (code !== 0 && signal === null && !mayFail) this.#ended(place.running, `SIGTERM: ${code} ${signal}`);
      await this.#start(place);
    });
  }

  #terminateWorker(): void {
    const workers = this.#fixture.workers().filter((worker) => this.#isWell(worker));
    if (workers.length === 0) return;
    const worker = this.#random.pick(workers);
    this.#count("SIGTERM worker");
    this.#later(async () => {
      const { code, signal } = await worker.terminate();
      // By a signal: it was killed meanwhile, or had hardly begun.
      if (code !== 0 && signal === null) this.#ended(worker, `SIGTERM: ${code} ${signal}`);
      await this.#hire();
    });
  }

  async #cut(): Promise<void> {
    if (!this.#isDatabaseUp) return;
    this.#count("cut connections");
    const which = this.#random.pick(["%", "rondo commits%", "rondo membership%", "rondo reads%"]);
    try {
      await this.#fixture.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE $1`,
        [which],
      );
    } catch (thrown) {
      // PostgreSQL itself may go meanwhile.
      this.#options.say(`could not cut: ${String(thrown)}`);
    }
  }

  async #restartDatabase(): Promise<void> {
    const { server } = this.#options;
    const mode = this.#random.pick(["fast", "immediate", "kill"] as const);
    this.#count(`PostgreSQL ${mode}`);
    this.#isDatabaseUp = false;
    this.#restarts++;
    await server.stop(mode);
    await this.#passed(this.#random.between(0, 2_000));
    for (;;) {
      try {
        await server.start();
        break;
      } catch (thrown) {
        // After a kill, what is left of it has to end first.
        this.#options.say(`PostgreSQL does not start yet: ${String(thrown).slice(-200)}`);
        await this.#passed(300);
      }
    }
    this.#isDatabaseUp = true;
  }

  /** A node that finds no database ends: it is started again and again, as its supervisor would. */
  async #start(place: NodePlace): Promise<void> {
    if (this.#starting.has(place)) return;
    this.#starting.add(place);
    while (!place.isUp) {
      try {
        await this.#fixture.startNode(place);
      } catch (thrown) {
        this.#options.say(`a node did not start: ${String(thrown).slice(-300)}`);
        await this.#passed(300);
      }
    }
    this.#starting.delete(place);
  }

  async #hire(): Promise<void> {
    while (this.#fixture.workers().length < this.#options.workers) this.#fixture.hire(["--capacity", "20"]);
  }

  /** A process that nobody killed has gone, or ended badly: that must not be. */
  #ended(one: FaultProcess, how: string): void {
    this.wrong.push(`${one.args.slice(0, 3).join(" ")}: ${how}\n${one.lines.slice(-15).join("\n")}`);
  }

  /** Processes that ended by themselves are told of, and replaced. */
  look(): void {
    for (const place of this.#fixture.nodes) {
      const { process } = place;
      if (process === null || !process.hasEnded || this.#known.has(process)) continue;
      if (this.#starting.has(place)) continue;
      this.#known.add(process);
      if (!process.wasKilled && !process.wasTerminated) {
        this.#ended(process, `ended by itself: ${JSON.stringify(process.exit)}`);
        this.#later(() => this.#start(place));
      }
    }
  }

  #isWell(one: FaultProcess): boolean {
    return !one.hasEnded && !this.#frozen.has(one) && !one.wasTerminated;
  }

  #count(name: string): void {
    this.faults[name] = (this.faults[name] ?? 0) + 1;
    this.#options.say(name);
  }

  /** Resolves after so long, or when all is to heal. */
  async #passed(ms: number): Promise<void> {
    const endAt = Date.now() + ms;
    while (Date.now() < endAt && !this.#isHealing) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  #later(run: () => Promise<void>): void {
    const done: Promise<void> = run().finally(() => this.#healing.delete(done));
    this.#healing.add(done);
  }
}
