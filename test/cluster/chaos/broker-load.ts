/**
 * The load of the chaos with a broker: executions of many tasks, and workflows of two commands of which the second has
 * the result of the first, each persisted and broadcast. And what must have come of them.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, type RemoteClient } from "../../../src/client/connect.ts";
import { audit, type ExecutionView, type JournalEvent } from "../../fixtures/faults/audit.ts";
import type { Noted } from "../../fixtures/faults/ledger.ts";

const PROJECT = "chaos";
const TOPIC = "CHAOS_CMD_ADD";

/** What came of it. */
export interface Outcome {
  readonly lost: readonly string[];
  readonly miscounted: readonly string[];
  /** Effects of post-operations that are not there. */
  readonly missing: readonly string[];
}

export class BrokerLoad {
  readonly #url: string;
  readonly #client: RemoteClient;
  readonly #receiver: Receiver;
  readonly #tasksEach: number;
  readonly #executions: string[] = [];
  readonly #commands: string[] = [];

  constructor(url: string, receiver: Receiver, tasksEach: number) {
    this.#url = url;
    this.#client = connect({ url });
    this.#receiver = receiver;
    this.#tasksEach = tasksEach;
  }

  async startTasks(): Promise<void> {
    const id = `many-${this.#executions.length}`;
    this.#executions.push(id);
    await this.#client.start("many", { tasks: this.#tasksEach }, { id });
  }

  async submitCommands(): Promise<void> {
    const n = this.#commands.length;
    const id = `add-${n}`;
    this.#commands.push(id);
    const steps = [this.#step(n, 0, n), this.#step(n, 1, "${steps[0].cmd_result.sum}")];
    await this.#client.submit(PROJECT, { workflow_id: id, steps });
  }

  /** Those that are not over. */
  async open(): Promise<string[]> {
    const open: string[] = [];
    for (const id of [...this.#executions, ...this.#commands]) {
      const { status } = await this.#get<{ status: string }>(`/v1/executions/${id}`);
      if (!["done", "failed", "cancelled"].includes(status)) open.push(`${id} is ${status}`);
    }
    return open;
  }

  /** Why some are not over, for whoever looks at it. */
  async why(ids: readonly string[]): Promise<unknown[]> {
    const first = ids.slice(0, 10).map((line) => line.split(" ")[0] ?? "");
    return Promise.all(first.map((id) => this.#get(`/v1/executions/${id}/why`)));
  }

  /** Compares what is over with what must be, and with what user code noted. */
  async outcome(noted: readonly Noted[]): Promise<Outcome> {
    const notedBy = new Map<string, Noted[]>();
    for (const one of noted) {
      const list = notedBy.get(one.execution);
      if (list === undefined) notedBy.set(one.execution, [one]);
      else list.push(one);
    }
    const found = { lost: [] as string[], miscounted: [] as string[], missing: [] as string[] };
    for (const id of this.#executions) {
      const view = await this.#get<ExecutionView>(`/v1/executions/${id}`);
      if (view.status !== "done" || view.output !== this.#tasksEach)
        found.lost.push(`${id}: ${view.status}, ${JSON.stringify(view.output ?? view.error)}`);
      found.miscounted.push(...audit(view, await this.#events(id), notedBy.get(id) ?? []));
    }
    for (let n = 0; n < this.#commands.length; n++) {
      await this.#checkCommands(n, found);
      found.missing.push(...(await this.#effects(n)));
    }
    return found;
  }

  /** Broadcasts that are owed may come after the end. */
  get broadcastsMissing(): number {
    return this.#commands.length * 2 - this.#receiver.ids.size;
  }

  async #checkCommands(n: number, found: { lost: string[]; miscounted: string[] }): Promise<void> {
    const id = this.#commands[n] as string;
    const { steps } = await this.#client.submitted(PROJECT, id);
    steps.forEach(({ cmd, proc }, i) => {
      const { sum } = cmd.cmd_result as { sum?: unknown };
      if (proc.proc_status !== "COMPLETE") found.lost.push(`${id} step ${i} is ${proc.proc_status}`);
      else if (sum !== n + 1 + i) found.lost.push(`${id} step ${i} gave ${JSON.stringify(cmd.cmd_result)}`);
    });
    const receipted = (await this.#events(id)).filter(({ kind }) => kind === "workflow.command.receipted");
    if (receipted.length !== 2) found.miscounted.push(`${id} has ${receipted.length} receipts`);
  }

  async #effects(n: number): Promise<string[]> {
    const missing: string[] = [];
    for (const step of [0, 1]) {
      const answer = await fetch(`${this.#url}/v1/state/embedded/chaos-${n}-${step}`);
      const text = await answer.text();
      if (!text.includes(`"sum":${n + 1 + step}`))
        missing.push(`add-${n} step ${step} is not persisted: ${text}`);
      if (!this.#receiver.marks.has(`${n}-${step}`)) missing.push(`add-${n} step ${step} was not broadcast`);
    }
    return missing;
  }

  #step(n: number, step: number, a: unknown) {
    const operations = {
      cmd_result_persistence: {
        target_statestore_name: "embedded",
        target_statestore_key: `chaos-${n}-${step}`,
      },
      cmd_result_broadcasts: [{ url: this.#receiver.url, static_payload: { mark: `${n}-${step}` } }],
    };
    return {
      cmd: { cmd_type: "ADD", cmd_data: { a, b: 1 }, cmd_metadata: { cmd_post_op: operations } },
      proc: { target_topic_name: TOPIC },
    } as never;
  }

  async #events(id: string): Promise<JournalEvent[]> {
    const events: JournalEvent[] = [];
    let cursor = "";
    for (;;) {
      const path = `/v1/executions/${id}/events?detail=full&limit=1000${cursor}`;
      const page = await this.#get<{ data: JournalEvent[]; next: string | null }>(path);
      events.push(...page.data);
      if (page.next === null) return events;
      cursor = `&cursor=${encodeURIComponent(page.next)}`;
    }
  }

  async #get<T>(path: string): Promise<T> {
    const answer = await fetch(`${this.#url}${path}`);
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }
}

/** Gets broadcasts; every fifth time it is asked it fails. */
export class Receiver {
  readonly ids = new Set<string>();
  readonly marks = new Set<string>();
  readonly #server: Server;
  #asked = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      let text = "";
      request.on("data", (data: Buffer) => {
        text += data.toString();
      });
      request.on("end", () => {
        // One that was cut off says nothing.
        response.statusCode = ++this.#asked % 5 === 0 || text === "" ? 503 : 204;
        if (response.statusCode === 204) {
          this.ids.add(String(request.headers["webhook-id"]));
          this.marks.add(String((JSON.parse(text) as { mark?: unknown }).mark));
        }
        response.end();
      });
    });
  }

  static async listen(): Promise<Receiver> {
    const receiver = new Receiver();
    await new Promise<void>((resolve) => receiver.#server.listen(0, "127.0.0.1", resolve));
    return receiver;
  }

  /** Host and port. */
  get target(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `http://${this.target}/hook`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
