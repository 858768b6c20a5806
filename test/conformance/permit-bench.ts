/**
 * Engine nodes of a cluster driven by hand, for what goes between them about limits: each has one partition, and tables of its
 * own. Their words arrive at once and in order. After each turn the invariants of limits must hold at every node.
 */
import type { Settings } from "../../src/engine/settings.ts";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import { type Attempt, NodeBench } from "./node-bench.ts";

interface OpenAttempt {
  readonly node: NodeBench;
  readonly attempt: Attempt;
}

export class PermitBench {
  readonly nodes: readonly NodeBench[];
  /** Attempts that have not ended, and the executions of all that were given out, in order. */
  readonly open: OpenAttempt[] = [];
  readonly granted: string[] = [];
  readonly #random: SeededRandom;
  readonly #read: number[];

  constructor(nodes: number, settings: Partial<Settings>, seed: number) {
    this.#random = new SeededRandom(seed);
    const live = Array.from({ length: nodes }, (_, i) => String(i));
    this.nodes = live.map((self, i) => {
      const random = new SeededRandom(1);
      const node = new NodeBench(settings, new MemoryTables({ random, partitions: nodes }));
      if (nodes === 1) return node;
      const epochs = new Map(live.map((_, partition) => [partition, 1]));
      node.input({ kind: "members", self, live, epochs, reads: 99 });
      node.input({ kind: "lost", partitions: live.map(Number).filter((other) => other !== i) });
      return node;
    });
    this.#read = this.nodes.map(() => 0);
  }

  /** Each node has a worker of its own. */
  join(uses: readonly string[], capacity: number): void {
    this.nodes.forEach((node, i) => {
      node.join(`w${i}`, uses, { capacity });
    });
    this.settle();
  }

  /** Starts an execution at a node; gives its id. */
  start(at: number, name: string, plan: (node: NodeBench) => Plan): string {
    const node = this.nodes[at] as NodeBench;
    for (let i = 0; ; i++) {
      const id = `${name}-${i}`;
      if (partitionOf(id, this.nodes.length) !== at) continue;
      node.start(plan(node), id);
      this.settle();
      return id;
    }
  }

  /** Turns of all nodes until nobody has anything to do or to say. */
  settle(): void {
    for (const node of this.nodes) node.settle();
    while (this.#carry()) for (const node of this.nodes) node.settle();
    for (const node of this.nodes) {
      const broken = node.node.brokenLimit();
      if (broken !== null) throw new Error(broken);
    }
  }

  /** Ends some of what is open, in some order; false: nothing is. */
  endSome(): boolean {
    if (this.open.length === 0) return false;
    for (let n = this.#random.between(1, this.open.length); n > 0; n--) {
      const [one] = this.open.splice(this.#random.below(this.open.length), 1);
      one?.node.receipt(one.attempt);
    }
    this.settle();
    return true;
  }

  /** What came out of the nodes reaches whom it is for; false: there was no word to anybody. */
  #carry(): boolean {
    let isMoved = false;
    this.nodes.forEach((node, i) => {
      const fresh = node.outputs.slice(this.#read[i]);
      this.#read[i] = node.outputs.length;
      for (const output of fresh) {
        if (output.kind === "grant") {
          const { worker, grant } = output;
          for (const item of grant.items) {
            this.open.push({ node, attempt: { worker, grant, item } });
            this.granted.push(grant.execution);
          }
        } else if (output.kind === "ask-permits") {
          const declares = output.declares === true ? [output.partition] : [];
          const { asks } = output;
          this.nodes[output.partition]?.input({ kind: "permits-asked", node: String(i), asks, declares });
          isMoved = true;
        } else if (output.kind === "call-permits") {
          this.nodes[Number(output.node)]?.input({ kind: "permits-called", partitions: output.partitions });
          isMoved = true;
        } else if (output.kind === "grant-permits") {
          this.nodes[Number(output.node)]?.input({ kind: "permits-granted", grants: output.grants });
          isMoved = true;
        }
      }
    });
    return isMoved;
  }
}
