/** The workers that a node knows, and the check that the right worker got the work. */
import type { Grant, Serves } from "../../../src/protocol/work.ts";
import { must } from "../trace.ts";
import { expectedVersion } from "../workload/versions.ts";
import type { HandlerModel } from "./handler-model.ts";

/** A grant may be decided a little before it is sent, and over a slow database much earlier. */
const SLACK_MS = 200;
const CLUSTER_SLACK_MS = 8_000;

export class Roster {
  readonly #workers = new Map<string, { serves: readonly Serves[]; asks: boolean }>();
  #changedAt = 0;

  joined(worker: string, { serves, asks }: { serves: readonly Serves[]; asks: boolean }, now: number): void {
    const isSame = this.#workers.get(worker)?.serves === serves;
    this.#workers.set(worker, { serves, asks });
    if (!isSame) this.#changedAt = now;
  }

  left(worker: string, now: number): void {
    if (this.#workers.delete(worker)) this.#changedAt = now;
  }

  clear(): void {
    this.#workers.clear();
  }

  canBeAsked(worker: string): boolean {
    return this.#workers.get(worker)?.asks === true;
  }

  /** The worker must have the highest served version that matches, and enumerate as the definition says. */
  checkGrant(
    worker: string,
    grant: Grant,
    { handler, at, isCluster }: { handler: HandlerModel; at: number; isCluster: boolean },
  ): void {
    const { use, version } = grant;
    const { plan } = handler;
    const isSame = plan.enumerateUse === plan.use;
    const range = grant.do === "enumerate" && !isSame ? null : (plan.definition.version ?? null);
    const what = `${grant.execution}/${grant.phase}/${grant.handler}: ${use} ${version}`;
    must(
      grant.do !== "enumerate" || plan.definition.enumerate !== undefined,
      `${what} is enumerated, but its definition names no enumeration`,
    );
    if (at - this.#changedAt < (isCluster ? CLUSTER_SLACK_MS : SLACK_MS)) return;
    this.#checkSingle(grant, handler, what);
    const found = this.#workers
      .get(worker)
      ?.serves.find((one) => one.use === use && (one.version ?? null) === version);
    must(found !== undefined, `${what} went to ${worker}, which does not serve it`);
    must(
      grant.do !== "enumerate" || found?.enumerates !== false,
      `${what} is enumerated by ${worker}, which only processes it`,
    );
    const enumerates = ({ serves }: { serves: readonly Serves[] }) =>
      serves.some((one) => one.use === use && (one.version ?? null) === version && one.enumerates === true);
    must(
      grant.do !== "enumerate" || found?.enumerates === true || ![...this.#workers.values()].some(enumerates),
      `${what} is enumerated by ${worker}, which does not say that it enumerates, as others do`,
    );
    const served = new Set<string>();
    for (const { serves } of this.#workers.values())
      for (const one of serves) if (one.use === use) served.add(one.version ?? "");
    const expected = expectedVersion(served, range);
    // A grant that was decided before a move is sent after the commit that the move shares.
    const { former } = handler;
    if (former !== null) former.grantedAt ??= at;
    const isOld =
      former !== null &&
      at - (former.grantedAt ?? at) < (isCluster ? CLUSTER_SLACK_MS : SLACK_MS) &&
      expectedVersion(served, former.plan.definition.version ?? null) === (version ?? "");
    must(
      isOld || expected === (version ?? ""),
      `${what} got the work, ${expected} fits "${range}" best of ${[...served].join()}`,
    );
  }

  /**
   * The input must not be granted as the single task while a worker declares that the code enumerates, unless the handler began
   * that way.
   */
  #checkSingle(
    { do: kind, use, version }: Grant,
    { plan, ended, started, origin }: HandlerModel,
    what: string,
  ): void {
    const { tasks, enumerate } = plan.definition;
    const isSingle = plan.mode === "use" && tasks === undefined && enumerate === undefined && origin === null;
    if (kind !== "process" || !isSingle || ended.has(0) || started.has(0)) return;
    for (const [worker, { serves }] of this.#workers)
      must(
        !serves.some(
          (one) => one.use === use && (one.version ?? null) === version && one.enumerates === true,
        ),
        `${what} got the input as its one task, but ${worker} enumerates it`,
      );
  }
}
