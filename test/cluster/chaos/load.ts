/**
 * The load of the chaos: executions of all kinds, started at a rate at whichever node answers. Before and after each
 * request a line is appended to a file outside of the system: what was acknowledged is known even if this process dies.
 */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import type { SeededRandom } from "../../../src/std/random.ts";
import type { ClusterFixture } from "../../fixtures/cluster/cluster-processes-fixture.ts";

/** What was acknowledged, and what must come of it. */
export interface Acknowledged {
  readonly workflow: string;
  readonly output: unknown;
}

interface Planned extends Acknowledged {
  readonly input: unknown;
  /** Signals that it waits for: name and data. */
  readonly signals?: readonly (readonly [string, unknown])[];
}

/** How long between two tries of a request that failed. */
const AGAIN_MS = 100;

export class Load {
  readonly acknowledged = new Map<string, Acknowledged>();
  /** Starts that were asked for. */
  offered = 0;
  /** Refusals that must not be. */
  readonly wrong: string[] = [];
  readonly #fixture: ClusterFixture;
  readonly #random: SeededRandom;
  readonly #file: string;
  readonly #underWay = new Set<Promise<void>>();
  #isOver = false;

  constructor(fixture: ClusterFixture, random: SeededRandom) {
    this.#fixture = fixture;
    this.#random = random;
    this.#file = join(fixture.folder, "acknowledged.ndjson");
  }

  /** Requests that are not answered yet. */
  get open(): number {
    return this.#underWay.size;
  }

  /** Starts one more. */
  offer(): void {
    const id = `c${++this.offered}`;
    const planned = plan(this.#random);
    const done: Promise<void> = this.#run(id, planned)
      .catch((thrown: unknown) => void this.wrong.push(`${id}: ${String(thrown)}`))
      .finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  /** Resolves when everything that was asked is answered. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  /** What is not answered by now is given up. */
  stop(): void {
    this.#isOver = true;
  }

  async #run(id: string, { workflow, input, output, signals = [] }: Planned): Promise<void> {
    if (!(await this.#insist("/v1/executions", { workflow, input, id }))) return;
    this.acknowledged.set(id, { workflow, output });
    this.#note({ acknowledged: id, workflow, output });
    for (const [name, data] of signals) {
      const isThere = await this.#insist(`/v1/executions/${id}/signals`, { name, data, id: `${id}-${name}` });
      if (isThere) this.#note({ signalled: id, name });
    }
  }

  /** Asks one node after another until one says yes; false: it was given up. */
  async #insist(path: string, body: unknown): Promise<boolean> {
    for (let at = this.#random.between(0, 2); !this.#isOver; at++) {
      const place = this.#fixture.nodes[at % this.#fixture.nodes.length];
      if (place === undefined) throw new Error("there are no nodes");
      const answer = await this.#fixture.ask(place, "POST", path, body);
      if (answer !== null && answer.status < 300) return true;
      if (answer !== null && answer.status !== 503) {
        this.wrong.push(`POST ${path} at ${place.url}: ${answer.status} ${JSON.stringify(answer.body)}`);
        return false;
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
    return false;
  }

  #note(line: Readonly<Record<string, unknown>>): void {
    appendFileSync(this.#file, `${JSON.stringify({ at: Date.now(), ...line })}\n`);
  }
}

/** One of all kinds. */
function plan(random: SeededRandom): Planned {
  const tasks = random.between(1, 20);
  switch (random.between(0, 5)) {
    case 0:
      return { workflow: "brisk", input: { tasks, steps: ["a", "b"], log: true }, output: null };
    case 1:
      return { workflow: "flaky", input: { tasks }, output: tasks };
    case 2: {
      const few = random.between(1, 5);
      return { workflow: "limited", input: { tasks: few }, output: few };
    }
    case 3: {
      const kids = random.between(1, 4);
      const output = { fan: tasks * (tasks - 1), told: 1, kids: kids * (kids - 1), approved: 2 };
      const signals = [["told", 1] as const, ["approved", 2] as const];
      return { workflow: "journey", input: { tasks, kids }, output, signals };
    }
    case 4:
      return { workflow: "brisk", input: { tasks: 60, pad: random.between(0, 300) }, output: null };
    default:
      return { workflow: "chain", input: { value: tasks }, output: (tasks + 1) * 2 };
  }
}
