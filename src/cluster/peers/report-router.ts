/** Routes reports of workers to the owners of their executions, in order. If no owner accepts a report, its verdict is `elsewhere`. */

import type { EnginePort } from "../../engine/engine-port.ts";
import type { Verdict } from "../../kernel/message.ts";
import type { Report } from "../../protocol/work.ts";
import { backOffMs } from "../../std/back-off.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { type AskParts, moved, PEER_RETRY } from "./ask-owner.ts";
import type { PeerClient } from "./peer-client.ts";

export interface ReportRouterParts extends AskParts {
  readonly engine: Pick<EnginePort, "report">;
  readonly client: Pick<PeerClient, "call">;
}

type Verdicts = readonly Verdict[];

/** How long reports wait for an owner. It is long enough for a partition that is being handed over, but not for one whose owner died. */
const PATIENCE_MS = 2_000;
const ELSEWHERE: Verdicts = ["elsewhere"];

export class ReportRouter {
  readonly #parts: ReportRouterParts;
  /** Executions with reports that wait or are being sent to another node. */
  readonly #underWay = new TransientMap<string, Promise<unknown>>();

  constructor(parts: ReportRouterParts) {
    this.#parts = parts;
  }

  async report(worker: string, reports: readonly Report[]): Promise<readonly Verdicts[]> {
    const { owners, engine } = this.#parts;
    const isPlain = reports.every(
      ({ execution }) => owners.isMine(execution) && !this.#underWay.has(execution),
    );
    if (!isPlain) return this.#inTurn(worker, reports, null);
    const verdicts = await engine.report(worker, reports);
    return verdicts.some(isElsewhere) ? this.#inTurn(worker, reports, verdicts) : verdicts;
  }

  /** Sends reports after all earlier reports on the same executions. */
  #inTurn(
    worker: string,
    reports: readonly Report[],
    said: readonly Verdicts[] | null,
  ): Promise<readonly Verdicts[]> {
    const executions = new Set(reports.map(({ execution }) => execution));
    const before = [...executions].flatMap((execution) => this.#underWay.get(execution) ?? []);
    const delivered = Promise.all(before).then(() => this.#deliver(worker, reports, said));
    for (const execution of executions) this.#underWay.set(execution, delivered);
    return delivered.finally(() => {
      for (const execution of executions)
        if (this.#underWay.get(execution) === delivered) this.#underWay.delete(execution);
    });
  }

  async #deliver(
    worker: string,
    reports: readonly Report[],
    said: readonly Verdicts[] | null,
  ): Promise<readonly Verdicts[]> {
    const { monotonic, random, owners, isOver } = this.#parts;
    const verdicts = said === null ? reports.map(() => ELSEWHERE) : [...said];
    const since = monotonic();
    for (let tries = 0; ; tries++) {
      // The first try sends all reports. Later tries send only those for which no owner was found.
      const left = reports.flatMap((report, index) =>
        isElsewhere(verdicts[index] ?? []) ? [{ report, index }] : [],
      );
      const [first] = left;
      if (first === undefined) return verdicts;
      const isAgain = tries > 0 || said !== null;
      if (isAgain) {
        if (isOver() || monotonic() - since >= PATIENCE_MS) return verdicts;
        owners.refresh();
        await moved(this.#parts, first.report.execution, backOffMs(tries, { ...PEER_RETRY, random }));
      }
      await Promise.all(
        this.#byOwner(left).map(async ({ url, items }) => {
          const heard = await this.#send(
            url,
            worker,
            items.map(({ report }) => report),
          );
          items.forEach(({ index }, i) => {
            verdicts[index] = heard?.[i] ?? ELSEWHERE;
          });
        }),
      );
    }
  }

  /** Groups reports by the URL of their owner; null means this node. Reports without a known owner are left out. */
  #byOwner<T extends { readonly report: Report }>(items: readonly T[]): { url: string | null; items: T[] }[] {
    const groups = new Map<string | null, T[]>();
    for (const item of items) {
      const owner = this.#parts.owners.ownerOf(item.report.execution);
      if (owner.kind === "nobody") continue;
      const url = owner.kind === "me" ? null : owner.url;
      const group = groups.get(url);
      if (group === undefined) groups.set(url, [item]);
      else group.push(item);
    }
    return Array.from(groups, ([url, group]) => ({ url, items: group }));
  }

  /** Sends reports and returns the verdicts. Returns null if there was no answer; the reports may have arrived all the same. */
  async #send(
    url: string | null,
    worker: string,
    reports: readonly Report[],
  ): Promise<readonly Verdicts[] | null> {
    const { engine, client } = this.#parts;
    if (url === null) return engine.report(worker, reports);
    const answer = await client.call<readonly Verdicts[]>(url, "report", { v: 1, worker, reports });
    return answer.kind === "answered" && Array.isArray(answer.value) ? answer.value : null;
  }
}

function isElsewhere(verdicts: Verdicts): boolean {
  return verdicts[0] === "elsewhere";
}
