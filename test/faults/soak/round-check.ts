/**
 * The check at the end of a round: every acknowledged execution has its expected end, every execution of the store that has
 * ended is audited once by the server and compared with the ledger of user code, and no execution came from nowhere.
 */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { exactly } from "../../../src/kernel/definition/names.ts";
import { audit, type ExecutionView } from "../../fixtures/faults/audit.ts";
import type { Noted } from "../../fixtures/faults/ledger.ts";
import { CHILD, CHILD_TASKS, type Expected, type SoakLoad } from "./soak-load.ts";
import type { SoakSystem } from "./soak-system.ts";

/** Sums over all executions that have ended. */
export interface Totals {
  /** Starts that were acknowledged. */
  acknowledged: number;
  /** Executions that were audited: the acknowledged ones, their children and those of the schedule. */
  executions: number;
  events: number;
  /** Tasks by the auditor. */
  tasks: number;
  lost: number;
  twice: number;
  /** Tasks of the ledger: their code was begun at least once. */
  processed: number;
  /** Attempts of the ledger. */
  attempts: number;
  /** Signals for digests that were acknowledged, all of which were read. */
  signals: number;
  charged: number;
  refunded: number;
}

interface Audited {
  readonly events: number;
  readonly tasks: number;
  readonly lost: number;
  readonly countedTwice: number;
  readonly findings: readonly { readonly code: string; readonly message: string }[];
  readonly more: number;
}

interface Listed {
  readonly id: string;
  readonly workflow: string;
  readonly status: string;
}

const ENDED = ["done", "failed", "cancelled"];
/** Executions that are audited at a time. */
const AT_ONCE = 6;

export class RoundCheck {
  readonly totals: Totals = {
    ...{ acknowledged: 0, executions: 0, events: 0, tasks: 0, lost: 0, twice: 0 },
    ...{ processed: 0, attempts: 0, signals: 0, charged: 0, refunded: 0 },
  };
  readonly #system: SoakSystem;
  readonly #load: SoakLoad;
  readonly #audited = new Set<string>();
  /** Lines of the ledger about executions that are not audited yet. */
  readonly #noted = new Map<string, Noted[]>();
  /** Signals that journals have, by the id of the first execution of a digest. */
  readonly #read = new Map<string, number>();
  #wrong: string[] = [];

  constructor(system: SoakSystem, load: SoakLoad) {
    this.#system = system;
    this.#load = load;
  }

  /** Checks the round; returns what is wrong. */
  async run(): Promise<string[]> {
    this.#wrong = [];
    const { acknowledged } = this.#load;
    await inParallel([...acknowledged], ([id, expected]) => this.#checkEnd(id, expected));
    const listed = await this.#system.pages<Listed>("/v1/executions?limit=200");
    for (const [id, lines] of this.#system.takeLedger())
      this.#noted.set(id, [...(this.#noted.get(id) ?? []), ...lines]);
    const fresh = listed.filter(({ id, status }) => ENDED.includes(status) && !this.#audited.has(id));
    await inParallel(fresh, (one) => this.#audit(one));
    for (const id of acknowledged.keys())
      if (!this.#audited.has(id)) this.#wrong.push(`${id} was acknowledged, and is not in the list`);
    this.#checkSignals();
    this.totals.acknowledged += acknowledged.size;
    this.#forget(listed);
    return this.#wrong;
  }

  async #checkEnd(id: string, { statuses, output }: Expected): Promise<void> {
    const view = await this.#system.ended(id);
    if (!statuses.includes(view.status))
      this.#wrong.push(`${id} is ${view.status}: ${JSON.stringify(view.error)}`);
    else if (view.status === "done" && output !== undefined && !isSame(view.output, output))
      this.#wrong.push(`${id}: ${JSON.stringify(view.output)} instead of ${JSON.stringify(output)}`);
  }

  async #audit({ id, workflow, status }: Listed): Promise<void> {
    const expected = this.#expectedOf(id, workflow);
    if (expected === null) {
      this.#wrong.push(`${id} of ${workflow} is in the list, and was never started`);
      return;
    }
    // An id without a number means the newest execution.
    const exact = exactly(id);
    const path = `/v1/executions/${encodeURIComponent(exact)}`;
    const found = (await this.#system.insist("GET", `${path}/audit`)) as Audited;
    this.#audited.add(id);
    this.totals.executions++;
    this.totals.events += found.events;
    this.totals.tasks += found.tasks;
    this.totals.lost += found.lost;
    this.totals.twice += found.countedTwice;
    if (found.findings.length + found.more > 0)
      this.#wrong.push(`${id}: the auditor finds ${JSON.stringify(found.findings.slice(0, 3))}`);
    const noted = this.#noted.get(id) ?? [];
    this.#checkLedger(id, noted, status === "done" ? expected : null);
    const isDigest = workflow === "digest";
    if (status !== "done" || (expected.tasks === 0 && !isDigest)) return;
    const [view, events] = [
      (await this.#system.insist("GET", path)) as ExecutionView,
      await this.#system.events(exact),
    ];
    this.#wrong.push(...audit(view, events, noted));
    if (!isDigest) return;
    const first = id.replace(/~\d+$/, "");
    const read = events.filter(({ kind }) => kind === "workflow.signalled").length;
    this.#read.set(first, (this.#read.get(first) ?? 0) + read);
  }

  /** Null: nothing can have started such an execution. */
  #expectedOf(id: string, workflow: string): Expected | null {
    const { acknowledged } = this.#load;
    const expected = acknowledged.get(id) ?? acknowledged.get(id.replace(/~\d+$/, ""));
    if (expected !== undefined) return expected;
    return workflow === CHILD ? { workflow, statuses: ["done"], tasks: CHILD_TASKS } : null;
  }

  /** Compares the ledger of an execution; `expected` is null if the execution is not done. */
  #checkLedger(id: string, noted: readonly Noted[], expected: Expected | null): void {
    const keysOf = (what: string): Set<string | null> =>
      new Set(noted.filter((one) => one.what === what).map(({ key }) => key));
    const begun = keysOf("begins");
    this.totals.processed += begun.size;
    this.totals.attempts += noted.filter(({ what }) => what === "begins").length;
    if (expected !== null && begun.size !== expected.tasks)
      this.#wrong.push(`${id}: the ledger has ${begun.size} tasks, there are ${expected.tasks}`);
    const [charged, refunded] = [keysOf("charges"), keysOf("refunds")];
    this.totals.charged += charged.size;
    this.totals.refunded += refunded.size;
    const wanted = expected === null ? charged.size : 0;
    if (refunded.size !== wanted || [...refunded].some((key) => !charged.has(key)))
      this.#wrong.push(`${id}: ${charged.size} charges, ${refunded.size} refunds, ${wanted} were due`);
  }

  /** Each acknowledged signal is in one journal once; the auditor and `unread` see to it that it was read. */
  #checkSignals(): void {
    for (const [id, sent] of this.#load.items) {
      const read = this.#read.get(id) ?? 0;
      this.totals.signals += read;
      if (read !== sent) this.#wrong.push(`${id}: ${sent} signals were acknowledged, journals have ${read}`);
    }
  }

  #forget(listed: readonly Listed[]): void {
    const isListed = new Set(listed.map(({ id }) => id));
    for (const id of this.#noted.keys()) if (this.#audited.has(id)) this.#noted.delete(id);
    for (const id of this.#audited) if (!isListed.has(id)) this.#audited.delete(id);
    for (const map of [this.#load.acknowledged, this.#load.items, this.#read]) map.clear();
    const payments = join(this.#system.folder, "payments");
    for (const name of readdirSync(payments)) rmSync(join(payments, name));
  }
}

async function inParallel<Item>(items: readonly Item[], run: (item: Item) => Promise<void>): Promise<void> {
  const rest = [...items];
  const runner = async (): Promise<void> => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await run(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, runner));
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
