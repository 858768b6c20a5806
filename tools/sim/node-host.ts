/**
 * The single node of a simulated run, with its own disk. It loses or fails commits, crashes and restarts. A new process knows
 * only what is in the tables.
 */

import type { Input } from "../../src/engine/io.ts";
import { type HandedLease, tableFor } from "../../src/engine/leases/lease-handover.ts";
import { EngineNode } from "../../src/engine/node.ts";
import type { StoreInfo } from "../../src/store/store.ts";
import { type ClusterOutput, type CommitOutput, EngineHost, settingsOf } from "./engine-host.ts";
import { showWrite } from "./show-event.ts";
import { Violation } from "./trace.ts";

export class NodeHost extends EngineHost {
  #isClosing = false;
  #commits: CommitOutput[] = [];

  override open(): void {
    const { ledger, timeline, trace, workers, projects } = this.world;
    const info = this.tables.open();
    ledger.opened(info);
    ledger.leases.opened({ at: timeline.now, machine: this.clock() });
    this.#isClosing = false;
    this.#commits = [];
    const suspectMs = workers.hasRemote || this.incarnation === 0 ? 300 : 0;
    const settings = { ...settingsOf(this.world.behaviour.seed), suspectMs, projects };
    const node = new EngineNode(info, this.clock(), settings);
    node.takeOver(this.#handedOver(info));
    trace.note(timeline.now, `open epoch ${info.owned[0]?.epoch} unclean ${info.owned[0]?.uncleanEpoch}`);
    this.begin(node);
  }

  override crash(): void {
    if (this.node === null) return;
    const { timeline, trace, ledger } = this.world;
    trace.note(timeline.now, "crash");
    const { unsettled } = this.tables;
    if (unsettled > 0 && this.world.has("lost-commits")) this.tables.lose(this.random.between(0, unsettled));
    ledger.crashed();
    this.end();
    timeline.after(this.random.pick([1, 200, 3_000]), () => this.node === null && this.open());
  }

  /** Hands over the leases of remote workers. If that is impossible, the process crashes instead. */
  override close(): void {
    if (this.node === null || this.#isClosing) return;
    const { timeline } = this.world;
    this.#isClosing = true;
    this.deliver({ kind: "closing" });
    const { incarnation } = this;
    timeline.after(200, () => {
      const { node } = this;
      if (this.incarnation !== incarnation || node === null) return;
      const table = node.leaseTables()?.get(0);
      if (node.isBusy || table === undefined) return this.crash();
      this.tables.putDocument("leases", "0", JSON.stringify(table));
      // Messages may arrive before the end.
      timeline.after(this.random.below(20), () => {
        if (this.incarnation !== incarnation) return;
        if (node.isBusy || node.hasSuspects) this.crash();
        else this.#handOver(table.leases.length);
      });
    });
  }

  #handOver(leases: number): void {
    const { timeline, trace, ledger } = this.world;
    trace.note(timeline.now, `close, ${leases} handed over`);
    this.tables.settle();
    this.tables.close(ledger.fence(), { clean: true });
    ledger.closed();
    this.end();
    timeline.after(50, () => this.node === null && this.open());
  }

  /** The leases that the last owner handed over, if it ended gracefully. */
  #handedOver({ owned: [own] }: StoreInfo): readonly HandedLease[] {
    if (own === undefined || own.uncleanEpoch === own.epoch - 1) return [];
    return tableFor(own, this.tables.getDocument("leases", "0"))?.leases ?? [];
  }

  protected override mayAct(): boolean {
    return true;
  }

  protected override toCluster(output: ClusterOutput): void {
    if (output.kind === "unreadable") throw new Violation(`unreadable: ${output.why}`);
    if (output.kind === "fenced") throw new Violation(`the only owner was fenced: ${output.why}`);
  }

  /** A purge is durable at once, and so are all earlier writes. */
  protected override purge(ids: readonly string[]): void {
    const { incarnation } = this;
    const { timeline, trace, ledger } = this.world;
    timeline.after(this.random.below(50), () => {
      if (this.incarnation !== incarnation) return;
      this.tables.settle();
      ledger.beforePurge(ids);
      this.tables.purge(ids);
      ledger.purged(ids);
      trace.note(timeline.now, `purge ${ids.join(" ")}`);
      this.deliver({ kind: "purged", ids });
    });
  }

  /** The disk does one commit after another, in order. */
  protected override commit(asked: CommitOutput): void {
    this.#commits.push(asked);
    if (this.#commits.length === 1) this.#write(asked);
  }

  #write({ commit, content }: CommitOutput): void {
    const { incarnation, world } = this;
    const isOurs = () => this.incarnation === incarnation;
    const dice = this.random.u32() / 4294967296;
    const answer = (input: Input) => {
      this.#commits.shift();
      const next = this.#commits[0];
      if (next !== undefined) this.#write(next);
      this.deliver(input);
    };
    world.timeline.after(this.random.below(8), () => {
      if (!isOurs()) return;
      if (world.has("failed-commits") && dice < 0.03)
        return answer({ kind: "commit-failed", commit, nothingWritten: true });
      if (world.has("crash") && dice > 0.99) return this.crash();
      const verdict = this.tables.commit(content);
      world.ledger.written(content);
      showWrite(world, `commit ${commit} ${verdict.kind}`, content);
      if (world.has("crash") && dice > 0.97) return this.crash();
      world.timeline.after(this.random.below(8), () => {
        if (!isOurs()) return;
        this.tables.settle();
        world.ledger.sync();
        if (world.has("crash") && dice > 0.96) return this.crash();
        if (world.has("lost-replies") && dice < 0.06)
          return answer({ kind: "commit-failed", commit, nothingWritten: false });
        answer({ kind: "committed", commit, verdict });
      });
    });
  }
}
