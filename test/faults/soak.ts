/**
 * All faults mixed at random, over and over, by one seed: the decisions are its, the timing is the machine's. In rounds:
 * work is started while things break, then everything heals, and what was acknowledged must have come out right. Not
 * for every run of the tests: `node test/faults/soak.mjs --minutes 5 --seed 7`.
 */
import { SeededRandom } from "../../src/std/random.ts";
import { ByteProxy } from "../fixtures/faults/byte-proxy-fixture.ts";
import { FaultFixture, type WorkerOptions } from "../fixtures/faults/fault-fixture.ts";
import type { FaultProcess } from "../fixtures/faults/fault-process-fixture.ts";
import { RequestProxy } from "../fixtures/faults/request-proxy-fixture.ts";
import { until } from "../fixtures/until.ts";

export interface SoakOptions {
  readonly seed: string;
  /** How long; a round that has begun is ended. */
  readonly minutes: number;
  readonly faultsPerRound?: number;
  /** Gets a line after each round. */
  readonly say?: (line: string) => void;
}

/** What came of it. */
export interface SoakReport {
  readonly seed: string;
  readonly rounds: number;
  readonly executions: number;
  /** Attempts that began. */
  readonly attempts: number;
  /** How often each fault was done. */
  readonly faults: Readonly<Record<string, number>>;
  /** The server's memory at the end of each round, in MB. */
  readonly rssMb: readonly number[];
  /** What is wrong; nothing, if all is well. */
  readonly wrong: readonly string[];
}

const WORKERS = 3;

/** Runs it. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const run = await Soak.open(options);
  try {
    return await run.run();
  } finally {
    await run.close();
  }
}

class Soak {
  readonly #options: SoakOptions;
  readonly #random: SeededRandom;
  readonly #bench: FaultFixture;
  readonly #requests: RequestProxy;
  readonly #bytes: ByteProxy;
  readonly #faults: Record<string, number> = {};
  #started = 0;
  /** Faults whose end comes later, such as a worker that is frozen. */
  readonly #healing = new Set<Promise<void>>();

  private constructor(options: SoakOptions, bench: FaultFixture, proxies: [RequestProxy, ByteProxy]) {
    this.#options = options;
    this.#bench = bench;
    [this.#requests, this.#bytes] = proxies;
    this.#random = new SeededRandom(options.seed);
  }

  static async open(options: SoakOptions): Promise<Soak> {
    const limits = { headerMs: 1_000, requestMs: 3_000, streamStallMs: 1_000 };
    const bench = await FaultFixture.open({ config: { limits }, patienceMs: 150_000 });
    const requests = await RequestProxy.start(bench.url);
    requests.keeps = /\/events$/;
    return new Soak(options, bench, [requests, await ByteProxy.start(bench.url)]);
  }

  async run(): Promise<SoakReport> {
    const { seed, minutes, faultsPerRound = 25, say = () => {} } = this.#options;
    const endAt = Date.now() + minutes * 60_000;
    const rssMb: number[] = [];
    const wrong: string[] = [];
    while (this.#bench.workers().length < WORKERS) await this.#hire();
    do {
      for (let i = 0; i < faultsPerRound; i++) {
        await this.#work();
        await this.#pass(this.#random.between(1, 30));
        await this.#break();
      }
      await this.#heal();
      wrong.push(...(await this.#bench.wrongs()));
      rssMb.push(Math.round(this.#bench.server.rssMb));
      const { size } = this.#bench.acknowledged;
      say(`round ${rssMb.length}: ${size} executions, ${rssMb.at(-1)} MB, ${wrong.length} wrong`);
      this.#started += size;
      this.#bench.acknowledged.clear();
    } while (Date.now() < endAt && wrong.length === 0);
    wrong.push(...(await this.#bench.stop()));
    const attempts = this.#bench.ledger.find({ what: "begins" }).length;
    const executions = this.#started;
    return { seed, rounds: rssMb.length, executions, attempts, faults: this.#faults, rssMb, wrong };
  }

  async close(): Promise<void> {
    this.#requests.close();
    this.#bytes.close();
    await this.#bench.close();
  }

  /** Lets so many moments pass at the proxy; when nothing happens there, a second. */
  async #pass(moments: number): Promise<void> {
    const wanted = this.#requests.moments + moments;
    const goOnAt = Date.now() + 1_000;
    await until("time passes", () => this.#requests.moments >= wanted || Date.now() > goOnAt);
  }

  /** Starts something. */
  async #work(): Promise<void> {
    const random = this.#random;
    const [bench, kind, tasks] = [this.#bench, random.between(0, 2), random.between(1, 40)];
    const log = random.between(0, 1) === 1;
    if (kind < 2) {
      const steps = ["a", "b", "c"].slice(0, random.between(0, 3));
      await bench.startTasks({ tasks, steps, log, pad: random.between(0, 300) }, "brisk");
      return;
    }
    const kids = random.between(0, 4);
    const output = { fan: tasks * (tasks - 1), told: 1, kids: kids * (kids - 1), approved: 2 };
    const id = await bench.start("journey", { tasks, kids }, output);
    this.#later(async () => {
      await bench.signal(id, "told", 1);
      await bench.signal(id, "approved", 2);
    });
  }

  async #break(): Promise<void> {
    const actions: Readonly<Record<string, () => Promise<void>>> = {
      "kill -9 server": () => this.#bench.restartServer(),
      "SIGTERM server": async () => {
        await this.#bench.stopServer();
        await this.#bench.startServer();
      },
      "kill -9 worker": () => this.#replace((worker) => worker.kill()),
      "SIGTERM worker": () =>
        this.#replace(async (worker) => {
          const { code } = await worker.terminate();
          if (code !== 0)
            throw new Error(`a worker ended with ${code}: ${worker.lines.slice(-10).join("\n")}`);
        }),
      "SIGSTOP worker": async () => this.#freeze(),
      "cut connections": async () => this.#cut(),
      "cut an answer": async () => this.#cutAnswer(),
      "replay events": () => this.#replay(),
      "bad clients": () => this.#annoy(),
    };
    const name = this.#random.pick(Object.keys(actions));
    this.#faults[name] = (this.#faults[name] ?? 0) + 1;
    await actions[name]?.();
  }

  async #hire(): Promise<void> {
    const random = this.#random;
    const url = random.pick([this.#bench.url, this.#requests.url, this.#requests.url, this.#bytes.url]);
    const spool = random.between(0, 1) === 0 ? [] : ["--spool", "spool"];
    const options: WorkerOptions = { url, args: ["--capacity", String(random.between(3, 40)), ...spool] };
    await this.#bench.worker(options);
  }

  async #replace(end: (worker: FaultProcess) => Promise<void>): Promise<void> {
    const worker = this.#random.pick(this.#bench.workers());
    await end(worker);
    await this.#hire();
  }

  #freeze(): void {
    const worker = this.#random.pick(this.#bench.workers());
    const untilMs = Date.now() + this.#random.between(500, 6_000);
    worker.signal("SIGSTOP");
    this.#later(async () => {
      await until("the frost is over", () => Date.now() > untilMs || worker.hasEnded);
      if (!worker.hasEnded) worker.signal("SIGCONT");
    });
  }

  /** Connections live for some bytes only, for a while. */
  #cut(): void {
    const random = this.#random;
    const bytes = (): number => Math.round(2 ** random.between(0, 14));
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
    // If there is none until then, it is the first of the next round.
    caught.then(
      (trapped) => trapped.cut(),
      () => {},
    );
  }

  async #replay(): Promise<void> {
    const { kept } = this.#requests;
    for (let i = 0; i < 20 && kept.length > 0; i++) {
      const batch = this.#random.pick(kept);
      // A server that is away, or does not know the worker, is no news.
      await this.#requests.replay(batch).catch(() => null);
    }
    if (kept.length > 2_000) kept.splice(0, 1_000);
  }

  async #annoy(): Promise<void> {
    const bodies = [`{"workflow":"tasks","input":${"[".repeat(200_000)}`, "x".repeat(6_000_000)];
    await Promise.all(
      bodies.map((body) =>
        fetch(`${this.#bench.url}/v1/executions`, {
          method: "POST",
          body,
          headers: { "content-type": "application/json" },
        }).then(
          (answer) => answer.text(),
          () => null,
        ),
      ),
    );
  }

  /** Nothing breaks any more, and everything is there. */
  async #heal(): Promise<void> {
    this.#bytes.cut({ heal: true });
    await Promise.all(this.#healing);
    while (this.#bench.workers().length < WORKERS) await this.#hire();
  }

  /** Does something meanwhile; healing waits for it. */
  #later(run: () => Promise<void>): void {
    const done: Promise<void> = run().finally(() => this.#healing.delete(done));
    this.#healing.add(done);
  }
}
