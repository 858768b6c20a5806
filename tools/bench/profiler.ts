/**
 * CPU profiles of a section of the program, one per thread, through the inspector. `node --cpu-prof` would also profile the
 * warm-up, and would miss the store's thread, which does not inherit the flags of the process.
 */
import { Session } from "node:inspector/promises";
import type { CpuProfile } from "./hot-functions.ts";

const SAMPLE_MICROSECONDS = 500;

interface WorkerMessage {
  readonly id?: number;
  readonly result?: unknown;
}

interface WorkerEvents {
  on(event: "NodeWorker.attachedToWorker", take: (event: { params: { sessionId: string } }) => void): void;
  on(event: "NodeWorker.detachedFromWorker", take: (event: { params: { sessionId: string } }) => void): void;
  on(
    event: "NodeWorker.receivedMessageFromWorker",
    take: (event: { params: { message: string } }) => void,
  ): void;
  post(method: string, params?: object): Promise<unknown>;
}

export class Profiler {
  readonly #session = new Session();
  /** The session with its worker domain, which Node's types lack. */
  readonly #workers = this.#session as unknown as WorkerEvents;
  readonly #threads = new Set<string>();
  readonly #answers = new Map<number, (result: unknown) => void>();
  #calls = 0;
  readonly main: CpuProfile[] = [];
  readonly store: CpuProfile[] = [];

  /** Attaches to this thread and to all threads that it starts later. */
  async attach(): Promise<void> {
    this.#session.connect();
    this.#workers.on("NodeWorker.attachedToWorker", ({ params }) => this.#threads.add(params.sessionId));
    this.#workers.on("NodeWorker.detachedFromWorker", ({ params }) => this.#threads.delete(params.sessionId));
    this.#workers.on("NodeWorker.receivedMessageFromWorker", ({ params }) => {
      const { id, result } = JSON.parse(params.message) as WorkerMessage;
      if (id === undefined) return;
      this.#answers.get(id)?.(result);
      this.#answers.delete(id);
    });
    await this.#workers.post("NodeWorker.enable", { waitForDebuggerOnStart: false });
    await this.#session.post("Profiler.enable");
    await this.#session.post("Profiler.setSamplingInterval", { interval: SAMPLE_MICROSECONDS });
  }

  /** Runs a section and keeps its profiles. */
  async section<T>(run: () => Promise<T>): Promise<T> {
    const threads = [...this.#threads];
    for (const thread of threads) {
      await this.#ask(thread, "Profiler.enable");
      await this.#ask(thread, "Profiler.setSamplingInterval", { interval: SAMPLE_MICROSECONDS });
      await this.#ask(thread, "Profiler.start");
    }
    await this.#session.post("Profiler.start");
    try {
      return await run();
    } finally {
      const { profile } = await this.#session.post("Profiler.stop");
      this.main.push(profile as CpuProfile);
      for (const thread of threads)
        this.store.push(((await this.#ask(thread, "Profiler.stop")) as { profile: CpuProfile }).profile);
    }
  }

  async #ask(thread: string, method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#calls;
    const answer = new Promise((resolve) => this.#answers.set(id, resolve));
    const message = JSON.stringify({ id, method, params });
    await this.#workers.post("NodeWorker.sendMessageToWorker", { sessionId: thread, message });
    return answer;
  }
}
