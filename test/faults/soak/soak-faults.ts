/**
 * The faults of a soak, one after the other by a seed: workers and nodes that are killed, frozen and ended, connections that
 * are cut, requests that come twice, clients that misbehave, a database that goes away. `heal` ends all of them.
 */
import type { SeededRandom } from "../../../src/std/random.ts";
import { ByteProxy } from "../../fixtures/faults/byte-proxy-fixture.ts";
import type { FaultProcess } from "../../fixtures/faults/fault-process-fixture.ts";
import { RequestProxy } from "../../fixtures/faults/request-proxy-fixture.ts";
import { until } from "../../fixtures/until.ts";
import { LEASE_MS, type Place, type SoakSystem, terminate } from "./soak-system.ts";

const WORKERS = 3;
/** Batches of events that are kept to be sent again. */
const KEPT_MAX = 1_000;

export class SoakFaults {
  /** How often each fault was made. */
  readonly counts: Record<string, number> = {};
  /** Whether the embedded server may be killed: only before its memory is measured, and after. */
  mayKillServer = true;
  readonly #system: SoakSystem;
  readonly #random: SeededRandom;
  readonly #requests: RequestProxy;
  readonly #bytes: ByteProxy;
  readonly #frozen = new Set<FaultProcess>();
  /** Faults that end later, such as a frozen process. */
  readonly #healing = new Set<Promise<void>>();
  #survivor: FaultProcess | null = null;

  private constructor(system: SoakSystem, random: SeededRandom, proxies: [RequestProxy, ByteProxy]) {
    this.#system = system;
    this.#random = random;
    [this.#requests, this.#bytes] = proxies;
    this.#requests.keeps = /\/events$/;
  }

  /** Starts the proxies and the workers. */
  static async open(system: SoakSystem, random: SeededRandom): Promise<SoakFaults> {
    const [first, second] = [system.survivor, system.nodes[1] ?? system.survivor];
    const proxies: [RequestProxy, ByteProxy] = [
      await RequestProxy.start(first.url),
      await ByteProxy.start(second.url),
    ];
    const faults = new SoakFaults(system, random, proxies);
    try {
      const urls = [
        faults.#bytes.url,
        ...system.nodes.filter((place) => place !== second).map(({ url }) => url),
      ];
      const survivor = await system.hire(urls.slice(0, system.nodes.length), ["--capacity", "20"], true);
      faults.#survivor = survivor;
      await faults.#fill();
      return faults;
    } catch (thrown) {
      faults.close();
      throw thrown;
    }
  }

  /** The worker that is not killed. */
  get survivor(): FaultProcess {
    if (this.#survivor === null) throw new Error("no worker was started");
    return this.#survivor;
  }

  close(): void {
    this.#requests.close();
    this.#bytes.close();
  }

  /** Lets this many requests and answers pass; at most a second. */
  async pass(moments: number): Promise<void> {
    const wanted = this.#requests.moments + moments;
    const goOnAt = Date.now() + 1_000;
    await until("time passes", () => this.#requests.moments >= wanted || Date.now() > goOnAt);
  }

  /** Makes one fault. */
  async break(): Promise<void> {
    const kinds = [
      ...this.#common(),
      ...(this.#system.database === null ? this.#embedded() : this.#cluster()),
    ];
    const [name, run] = this.#random.pick(kinds);
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    await run();
  }

  /** Ends all faults, and starts missing processes. */
  async heal(): Promise<void> {
    this.#bytes.cut({ heal: true });
    while (this.#healing.size > 0) await Promise.all(this.#healing);
    await this.#fill();
    for (const one of [this.survivor, ...this.#system.nodes.map(({ process }) => process)])
      if (one.hasEnded)
        throw new Error(
          `${one.args[0]} ended by itself: ${JSON.stringify(one.exit)}\n${one.lines.slice(-20).join("\n")}`,
        );
  }

  #common(): [string, () => Promise<void>][] {
    return [
      ["kill -9 worker", () => this.#replace((worker) => worker.kill())],
      ["SIGTERM worker", () => this.#replace((worker) => terminate(worker))],
      ["SIGSTOP worker", async () => this.#freeze(this.#random.pick(this.#victims()), 6_000)],
      ["cut connections", async () => this.#cut()],
      ["cut an answer", async () => this.#cutAnswer()],
      ["replay events", () => this.#replay()],
      ["bad clients", () => this.#annoy()],
    ];
  }

  #embedded(): [string, () => Promise<void>][] {
    const { survivor } = this.#system;
    const freeze: [string, () => Promise<void>] = [
      "SIGSTOP server",
      async () => this.#freeze(survivor.process, 1_500),
    ];
    if (!this.mayKillServer || this.#frozen.has(survivor.process)) return [freeze];
    return [
      freeze,
      ["kill -9 server", () => this.#restart(survivor, (node) => node.kill())],
      ["SIGTERM server", () => this.#restart(survivor, terminate)],
    ];
  }

  #cluster(): [string, () => Promise<void>][] {
    const { nodes, survivor } = this.#system;
    const places = nodes.filter((place) => place !== survivor && !this.#frozen.has(place.process));
    const cut: [string, () => Promise<void>] = ["cut database connections", () => this.#cutDatabase()];
    const restart: [string, () => Promise<void>] = ["restart PostgreSQL", () => this.#restartDatabase()];
    const rare = this.#random.between(0, 4) === 0 ? [restart] : [];
    if (places.length === 0) return [cut, ...rare];
    const place = this.#random.pick(places);
    return [
      cut,
      ...rare,
      ["kill -9 node", () => this.#restart(place, (node) => node.kill())],
      ["SIGTERM node", () => this.#restart(place, terminate)],
      ["SIGSTOP node", async () => this.#freeze(place.process, LEASE_MS + 3_000)],
    ];
  }

  /** The workers that may be killed. */
  #victims(): FaultProcess[] {
    const { workers } = this.#system;
    return workers.filter((one) => one !== this.survivor && !one.hasEnded && !this.#frozen.has(one));
  }

  /** Starts workers until all are there. */
  async #fill(): Promise<void> {
    while (this.#system.workers.filter(({ hasEnded }) => !hasEnded).length < WORKERS + 1) await this.#hire();
  }

  async #hire(): Promise<void> {
    const random = this.#random;
    const [first, second, ...others] = this.#system.nodes.map(({ url }) => url) as [string, ...string[]];
    const urls =
      second === undefined
        ? [random.pick([first, this.#requests.url, this.#requests.url, this.#bytes.url])]
        : [random.pick([first, this.#requests.url]), random.pick([second, this.#bytes.url]), ...others];
    const spool = random.between(0, 1) === 0 ? [] : ["--spool", "spool"];
    await this.#system.hire(urls, ["--capacity", String(random.between(3, 40)), ...spool]);
  }

  async #replace(end: (worker: FaultProcess) => Promise<void>): Promise<void> {
    const victims = this.#victims();
    if (victims.length > 0) await end(this.#random.pick(victims));
    await this.#fill();
  }

  async #restart(place: Place, end: (node: FaultProcess) => Promise<void>): Promise<void> {
    await end(place.process);
    await this.#system.restart(place);
  }

  #freeze(one: FaultProcess | undefined, msMax: number): void {
    if (one === undefined || this.#frozen.has(one)) return;
    const untilMs = Date.now() + this.#random.between(300, msMax);
    one.signal("SIGSTOP");
    this.#frozen.add(one);
    this.#later(async () => {
      await until("the frost is over", () => Date.now() > untilMs);
      this.#frozen.delete(one);
      one.signal("SIGCONT");
    });
  }

  /** For a while, connections live for a few bytes only. */
  #cut(): void {
    const bytes = (): number => Math.round(2 ** this.#random.between(0, 14));
    let left = 30;
    this.#bytes.life = () => {
      left--;
      if (left < 0) return { up: Number.POSITIVE_INFINITY, down: Number.POSITIVE_INFINITY };
      return left % 2 === 0
        ? { up: bytes(), down: Number.POSITIVE_INFINITY }
        : { up: Number.POSITIVE_INFINITY, down: bytes() };
    };
    this.#bytes.cut();
  }

  #cutAnswer(): void {
    const path = this.#random.pick([/\/claim$/, /\/events$/, /\/heartbeat$/, /\/v1\/workers$/]);
    const caught = this.#requests.trap(path, this.#random.pick(["asked", "answered"] as const));
    // If there is none now, it is the first of the next round.
    caught.then(
      (trapped) => trapped.cut(),
      () => {},
    );
  }

  async #replay(): Promise<void> {
    const { kept } = this.#requests;
    if (kept.length > KEPT_MAX) kept.splice(0, kept.length - KEPT_MAX);
    for (let i = 0; i < 20 && kept.length > 0; i++) {
      // A server that is away, or does not know the worker, may refuse it.
      await this.#requests.replay(this.#random.pick(kept)).catch(() => null);
    }
  }

  async #annoy(): Promise<void> {
    await Promise.all(
      [`{"workflow":"brisk","input":${"[".repeat(200_000)}`, "x".repeat(6_000_000)].map((body) =>
        this.#requests.replay({ method: "POST", path: "/v1/executions", body }).catch(() => null),
      ),
    );
  }

  async #cutDatabase(): Promise<void> {
    const which = this.#random.pick(["%", "rondo commits%", "rondo membership%", "rondo reads%"]);
    await this.#system.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE $1`,
      [which],
    );
  }

  async #restartDatabase(): Promise<void> {
    const { database } = this.#system;
    if (database === null) return;
    await database.stop(this.#random.pick(["fast", "immediate"] as const));
    await database.start();
  }

  /** Does something meanwhile; `heal` waits for it. */
  #later(run: () => Promise<void>): void {
    const done: Promise<void> = run().finally(() => this.#healing.delete(done));
    this.#healing.add(done);
  }
}
