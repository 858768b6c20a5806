/**
 * The load of a soak: executions of all kinds, each with its expected end, and clients that read and leave. Every start is
 * repeated until it is acknowledged, so all planned executions have to be found at the end of the round.
 */
import type { SeededRandom } from "../../../src/std/random.ts";
import type { SoakSystem } from "./soak-system.ts";

/** The expected end of an execution that was acknowledged. */
export interface Expected {
  readonly workflow: string;
  /** Allowed statuses. */
  readonly statuses: readonly string[];
  /** The output of an execution that is done; left out: not compared. */
  readonly output?: unknown;
  /** The number of tasks that user code begins in an execution that is done. */
  readonly tasks: number;
}

export const SCHEDULE = "tick";
export const CHILD = "kid";
/** The output of a child of `journey` or the schedule is not compared; its one task is. */
export const CHILD_TASKS = 1;
const DONE = ["done"];

export class SoakLoad {
  /** Executions of this round. */
  readonly acknowledged = new Map<string, Expected>();
  /** Signals that were acknowledged, by the id of their digest. */
  readonly items = new Map<string, number>();
  /** The number of requests and streams of clients that only read. */
  reads = 0;
  readonly #system: SoakSystem;
  readonly #random: SeededRandom;
  readonly #underWay = new Set<Promise<void>>();
  #ids = 0;

  constructor(system: SoakSystem, random: SeededRandom) {
    this.#system = system;
    this.#random = random;
  }

  /** Makes the schedule that fires every 10 seconds. */
  async schedule(): Promise<void> {
    const spec = { id: SCHEDULE, workflow: CHILD, input: { value: 4 }, cron: "*/10 * * * * *" };
    await this.#system.insist("POST", "/v1/schedules", spec);
  }

  async unschedule(): Promise<void> {
    await this.#system.insist("DELETE", `/v1/schedules/${SCHEDULE}`);
  }

  /** Starts one execution of some kind, and some reads. Follow-ups such as signals go on meanwhile. */
  async offer(): Promise<void> {
    const kinds = [
      () => this.#fanOut(),
      () => this.#fanOut(),
      () => this.#tolerant(),
      () => this.#journey(),
      () => this.#journey(),
      () => this.#order(),
      () => this.#order(),
      () => this.#digest(),
      () => this.#script(),
      () => this.#runSchedule(),
      () => this.#command(),
    ];
    await this.#random.pick(kinds)();
    this.#meanwhile(() => this.#read());
  }

  /** Resolves when all follow-ups are done. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  async #start(workflow: string, input: unknown, expected: Omit<Expected, "workflow">): Promise<string> {
    const id = `${workflow}-${++this.#ids}`;
    await this.#system.insist("POST", "/v1/executions", { workflow, input, id });
    this.acknowledged.set(id, { workflow, ...expected });
    return id;
  }

  async #fanOut(): Promise<void> {
    const tasks = this.#random.between(1, 40);
    const steps = ["a", "b", "c"].slice(0, this.#random.between(0, 3));
    const input = { tasks, steps, log: this.#random.between(0, 1) === 1, pad: this.#random.between(0, 300) };
    await this.#start("brisk", input, { statuses: DONE, output: null, tasks });
  }

  async #tolerant(): Promise<void> {
    const tasks = this.#random.between(1, 20);
    const failed = Math.floor(tasks / 7);
    await this.#start(
      "tolerant",
      { tasks },
      { statuses: DONE, output: { done: tasks - failed, failed }, tasks },
    );
  }

  async #journey(): Promise<void> {
    const [tasks, kids] = [this.#random.between(1, 20), this.#random.between(0, 4)];
    const output = { fan: tasks * (tasks - 1), told: 1, kids: kids * (kids - 1), approved: 2 };
    const id = await this.#start("journey", { tasks, kids }, { statuses: DONE, output, tasks: tasks + 1 });
    this.#meanwhile(async () => {
      for (const [name, data] of [
        ["told", 1],
        ["approved", 2],
      ])
        await this.#system.insist("POST", `/v1/executions/${id}/signals`, {
          name,
          data,
          id: `${id}-${name}`,
        });
    });
  }

  async #order(): Promise<void> {
    const [cards, fate] = [this.#random.between(1, 8), this.#random.between(0, 2)];
    const input = { cards: Array.from({ length: cards }, (_, i) => `card ${i}`) };
    if (fate === 0) input.cards.push("declined");
    const statuses = fate === 0 ? ["failed"] : fate === 1 ? ["done", "cancelled"] : DONE;
    const id = await this.#start("order", input, { statuses, output: cards, tasks: cards });
    const afterMs = this.#random.between(0, 600);
    if (fate === 1)
      this.#meanwhile(async () => {
        await pause(afterMs);
        const { status, body } = await this.#system.answer({
          method: "POST",
          path: `/v1/executions/${id}/cancel`,
          body: {},
        });
        // 409: it has ended before.
        if (status >= 300 && status !== 409)
          throw new Error(`cancel ${id}: ${status} ${JSON.stringify(body)}`);
      });
  }

  async #digest(): Promise<void> {
    const id = `digest-${++this.#ids}`;
    const items = this.#random.between(1, 12);
    const pauses = Array.from({ length: items }, () => this.#random.between(0, 200));
    const send = async (n: number): Promise<void> => {
      const start = { workflow: "digest", input: null, ifExists: "startNewWhenDone" };
      const signal = { name: "item", data: n, id: `${id}-${n}`, start };
      await this.#system.insist("POST", `/v1/executions/${id}/signals`, signal);
      this.items.set(id, n + 1);
    };
    await send(0);
    this.acknowledged.set(id, { workflow: "digest", statuses: DONE, output: null, tasks: 0 });
    this.#meanwhile(async () => {
      for (let n = 1; n < items; n++) {
        await pause(pauses[n] ?? 0);
        await send(n);
      }
    });
  }

  async #script(): Promise<void> {
    const prices = Array.from({ length: this.#random.between(1, 5) }, () => this.#random.between(1, 9));
    const output = prices.reduce((sum, price) => sum + price, 0);
    await this.#start("prices", { prices }, { statuses: DONE, output, tasks: 0 });
  }

  async #runSchedule(): Promise<void> {
    const path = `/v1/schedules/${SCHEDULE}/run`;
    const started = await this.#system.insist("POST", path, {}, `run-${++this.#ids}`);
    const { execution } = started as { readonly execution: string };
    this.acknowledged.set(execution, { workflow: CHILD, statuses: DONE, output: 8, tasks: 1 });
  }

  async #command(): Promise<void> {
    const id = `command-${++this.#ids}`;
    const step = (value: unknown): unknown => ({
      cmd: { cmd_type: "DOUBLE", cmd_data: { value } },
      proc: {
        target_topic_name: "SOAK_DOUBLE",
        retry: { attempts: 5, crashes: 100, min: "1ms", max: "20ms" },
      },
    });
    // The second number makes another definition for each submission, which has to be deleted with it.
    const steps = [step(this.#ids), step(`\${steps[0].cmd_result.value}`)];
    await this.#system.insist("POST", "/v1/projects/soak/workflows", { workflow_id: id, steps });
    this.acknowledged.set(id, { workflow: "", statuses: DONE, tasks: 0 });
  }

  /** A client that reads something, or follows a stream for a moment, and leaves. */
  async #read(): Promise<void> {
    const ids = [...this.acknowledged.keys()];
    const id = encodeURIComponent(ids.length === 0 ? "none" : this.#random.pick(ids));
    const path = this.#random.pick([
      "/v1/executions?limit=50",
      "/v1/executions?q=journey&limit=20",
      "/v1/executions?workflow=brisk&status=running",
      "/v1/overview",
      "/v1/counts",
      "/v1/dead-letters",
      `/v1/executions/${id}/why`,
      `/v1/executions/${id}/events?follow=true`,
      `/v1/executions/${id}/logs?follow=true`,
      `/v1/executions/${id}/events?follow=true`,
      `/v1/executions/${id}/logs`,
    ]);
    const url = this.#random.pick(this.#system.nodes).url;
    const accept = path.endsWith("follow=true") ? "text/event-stream" : "application/json";
    this.reads++;
    await this.#system.ask(url, { method: "GET", path, accept, patienceMs: this.#random.between(10, 3_000) });
  }

  #meanwhile(run: () => Promise<void>): void {
    const done: Promise<void> = run().finally(() => this.#underWay.delete(done));
    // A failure is thrown where the follow-ups are awaited.
    done.catch(() => {});
    this.#underWay.add(done);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
