/**
 * Alerts. A rule names a cause and a target. In each round a node looks for causes; each cause of a rule is a document, created
 * by compare-and-set, so that it exists once however many nodes see it. The alert is open until its target has taken it. The
 * node that tries moves `dueAt` first; if it dies, another node tries after that time, with the same id. An alert is therefore
 * sent once, and repeated only if it is not known whether the target has taken it.
 */
import { DamagedData } from "../../kernel/journal/damage.ts";
import { backOffMs } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { showDuration } from "../../std/duration.ts";
import { sha256 } from "../../std/hash.ts";
import { type Rejection, RondoError, reject } from "../../std/rejection.ts";
import { allDocuments, listDocuments } from "../../store/document-form.ts";
import { type Store, StoreFault } from "../../store/store.ts";
import type { ClusterShown } from "../parts.ts";
import type { FoundGroup } from "../services/dead-letter-groups.ts";
import {
  ALERT_KIND,
  type AlertRule,
  alertForm,
  type Happening,
  RULE_KIND,
  ruleForm,
  type StoredAlert,
} from "./alert.ts";
import {
  concerns,
  deathsOf,
  type FailedExecution,
  failureOf,
  groupOf,
  type OldQueue,
  queueOf,
} from "./alert-causes.ts";
import type { AlertSender } from "./alert-sender.ts";

/** How often a node looks for causes, and how often it reads the rules while there are none. */
const EVERY_MS = 5_000;
const IDLE_MS = 30_000;
/**
 * How far each search for failed executions reaches back before the end of the previous search, because a commit can become visible after
 * a later commit.
 */
const MARGIN_MS = 30_000;
/** A search for failed executions never reaches back further than this, even after a longer pause. */
const BACK_MS = 3_600_000;
const FAILED_MAX = 500;
const TRIES_MAX = 8;
/** The most alerts to one target in a round. */
const ROUND_MAX = 200;
/** How long a try to send an alert may take before another node may try. */
const TRY_MS = 60_000;
/** How long an alert without a time in its id is kept. While it is kept, the same cause raises no other alert. */
const KEPT_MS = 30 * 86_400_000;
const AFTER_MS = 600_000;
const KNOWN_MAX = 20_000;
const TIME_DIGITS = 15;
/** The id of an alert begins with the time of its cause, by which retention deletes it, or with the word `cause`. */
const CAUSE = "cause";
/** The id of the stored time up to which failed executions were searched. */
const MARK = "failed";
const MARK_KIND = "alert-mark";

export interface AlertsOptions {
  readonly store: Pick<Store, "listDocuments" | "getDocument" | "swapDocument" | "putDocument" | "listEnded">;
  readonly clock: Clock;
  readonly sender: AlertSender;
  /** Rules of the configuration file. */
  readonly rules: readonly Omit<AlertRule, "createdAt">[];
  readonly failed: (id: string) => Promise<FailedExecution | null>;
  readonly groups: () => Promise<readonly FoundGroup[]>;
  /** Queues with ready work, over all nodes. */
  readonly queues: () => Promise<readonly OldQueue[]>;
  /** The ring; null for a single node. */
  readonly ring: () => ClusterShown | null;
  /** Whether this node looks for causes at intervals. */
  readonly isPeriodic: boolean;
  readonly onFault: (fault: Error) => void;
}

export class Alerts {
  readonly #options: AlertsOptions;
  /** Ids of alerts that are stored already. */
  readonly #known = new Set<string>();
  /** Queues that were old in the last round. A queue causes an alert only if it is old in two rounds in a row. */
  #oldBefore = new Set<string>();
  /** No alert with an earlier time in its id is open, so a round begins to read at this time. At first, all alerts are read. */
  #openFrom = 0;
  #cancel: () => void = () => undefined;
  #round: Promise<void> = Promise.resolve();
  readonly #closing = new AbortController();

  constructor(options: AlertsOptions) {
    this.#options = options;
    if (options.isPeriodic) this.#later(EVERY_MS);
  }

  async close(): Promise<void> {
    // An alert that is being sent stays open. The next try has the same id, so that the target can recognise it.
    this.#closing.abort();
    this.#cancel();
    await this.#round;
  }

  /** All rules: those of the configuration file, and those that were made over the API. */
  async rules(): Promise<readonly (AlertRule & { readonly isOfFile: boolean })[]> {
    const stored = new Map<string, AlertRule>();
    for await (const one of allDocuments(this.#options.store, ruleForm))
      if (one.damage === undefined) stored.set(one.id, one.value);
      // The stored start time of a rule of the configuration file is damaged. It is deleted and written again; otherwise the
      // rule would start over in each round.
      else if (isFileId(one.id)) await this.#options.store.putDocument(RULE_KIND, one.id, null);
    const ofFile = await Promise.all(this.#options.rules.map((rule) => this.#begun(rule, stored)));
    const names = new Set(ofFile.map(({ id }) => id));
    const made = [...stored.values()].filter(({ id }) => !isFileId(id) && !names.has(id));
    return [
      ...ofFile.map((rule) => ({ ...rule, isOfFile: true })),
      ...made.map((rule) => ({ ...rule, isOfFile: false })),
    ];
  }

  /** Stores a rule. It replaces an existing rule with the same id. */
  async put(rule: Omit<AlertRule, "createdAt">): Promise<AlertRule | Rejection> {
    if (this.#options.rules.some(({ id }) => id === rule.id))
      return reject("conflict", `the rule "${rule.id}" is in the configuration file`, {
        path: "id",
        hint: "change the rule in the configuration file, or choose another id",
      });
    const refusal = this.#options.sender.refusalOf(rule.to);
    if (refusal !== null) return refusal;
    const made = { ...rule, createdAt: this.#options.clock.now() };
    await this.#options.store.putDocument(RULE_KIND, rule.id, JSON.stringify(made));
    return made;
  }

  /** Deletes a rule; false if there is none. */
  async remove(id: string): Promise<boolean> {
    const { store } = this.#options;
    if (isFileId(id) || (await store.getDocument(RULE_KIND, id)) === null) return false;
    await store.putDocument(RULE_KIND, id, null);
    return true;
  }

  /** Sends a test to the target of a rule. Returns why the target did not accept it; null if it did. */
  async test(id: string): Promise<string | null | Rejection> {
    const rule = (await this.rules()).find((one) => one.id === id);
    if (rule === undefined) return reject("not_found", `there is no rule "${id}"`);
    const now = this.#options.clock.now();
    const happening = {
      key: `test ${now}`,
      at: now,
      text: `Test of the rule ${id}`,
      page: "/alerts",
      data: {},
    };
    const message = { id: idText(rule, happening), rule, happening, isTest: true };
    return this.#options.sender.send(rule.to, message, this.#closing.signal);
  }

  /** The newest alerts, the newest first. */
  async recent(max: number): Promise<readonly StoredAlert[]> {
    const { store } = this.#options;
    const [timed, others] = await Promise.all([
      listDocuments(store, alertForm, { after: "0", before: ":", descending: true, max }),
      listDocuments(store, alertForm, { after: `${CAUSE} `, max: 1_000 }),
    ]);
    return [...timed, ...others]
      .flatMap((one) => (one.damage === undefined ? [one.value] : []))
      .sort((a, b) => (b.sentAt ?? b.dueAt) - (a.sentAt ?? a.dueAt))
      .slice(0, max);
  }

  /** Looks for causes of alerts, and sends the alerts that are due. */
  async round(): Promise<void> {
    const rules = await this.rules();
    if (rules.length > 0 && this.#checksStore()) {
      await this.#findFailures(rules.filter(({ when }) => when === "execution.failed"));
      await this.#findGroups(rules.filter(({ when }) => when === "error.new"));
      await this.#findQueues(rules.filter(({ when }) => when === "queue.old"));
    }
    // Every node reports deaths, because it may be the only node that noticed one.
    for (const rule of rules)
      if (rule.when === "node.died") {
        const ring = this.#options.ring();
        for (const death of ring === null ? [] : deathsOf(ring))
          if (death.at >= rule.createdAt) await this.#raise(rule, death);
      }
    await this.#sendDue();
    this.#later(rules.length === 0 ? IDLE_MS : EVERY_MS);
  }

  #later(ms: number): void {
    this.#cancel();
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(ms, () => {
      this.#round = this.round().catch((thrown: unknown) => {
        // Causes are read from other nodes and from stored rows. If a node cannot be reached or a row is damaged, the fault is
        // reported and the next round tries again.
        if (![StoreFault, DamagedData, RondoError].some((known) => thrown instanceof known)) throw thrown;
        this.#options.onFault(thrown as Error);
        this.#later(IDLE_MS);
      });
    });
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Whether this node looks for causes in the store: one node of a cluster does, the first in the ring. */
  #checksStore(): boolean {
    const ring = this.#options.ring();
    if (ring === null) return true;
    const [first] = ring.ring.nodes
      .filter(({ suspect }) => !suspect)
      .map(({ url }) => url)
      .sort();
    return first === undefined || first === ring.ring.url;
  }

  /** Returns a rule of the configuration file with the time at which a node first saw it. */
  async #begun(
    rule: Omit<AlertRule, "createdAt">,
    stored: ReadonlyMap<string, AlertRule>,
  ): Promise<AlertRule> {
    const id = fileId(rule.id);
    const known = stored.get(id);
    if (known !== undefined) return { ...rule, createdAt: known.createdAt };
    const begun = { ...rule, createdAt: this.#options.clock.now() };
    // If another node stored its time first, that time is read in the next round.
    await this.#options.store.swapDocument(RULE_KIND, id, {
      was: null,
      body: JSON.stringify({ ...begun, id }),
    });
    return begun;
  }

  async #findFailures(rules: readonly AlertRule[]): Promise<void> {
    if (rules.length === 0) return;
    const { store, clock, failed } = this.#options;
    const now = clock.now();
    const was = await this.#readMark();
    const mark = was ?? now;
    let from = Math.max(/* @plant late failures not looked for */ mark - MARGIN_MS, now - BACK_MS);
    for (let max = FAILED_MAX; ; ) {
      const range = { finishedFrom: from, finishedBefore: now + 1, status: "failed", max };
      const ids = await store.listEnded(range);
      let last = from;
      for (const id of ids) {
        if (this.#isClosed) return;
        const one = await failed(id);
        if (one === null) continue;
        last = Math.max(last, one.finishedAt);
        for (const rule of rules)
          if (one.finishedAt >= rule.createdAt && concerns(rule, one))
            await this.#raise(rule, failureOf(one), one.finishedAt);
      }
      if (ids.length < max) break;
      // All executions of this page ended at the same millisecond, so the next read takes a larger page.
      if (last === from) max *= 2;
      from = last;
    }
    // The mark need not be exact: a failure that is read twice raises only one alert.
    if (was === null || now - mark > MARGIN_MS / 2) await store.putDocument(MARK_KIND, MARK, String(now));
  }

  /** The time up to which failed executions were searched; null if no time is stored, or it is damaged. */
  async #readMark(): Promise<number | null> {
    try {
      const was = Number((await this.#options.store.getDocument(MARK_KIND, MARK)) ?? Number.NaN);
      return Number.isFinite(was) ? was : null;
    } catch (thrown) {
      if (!(thrown instanceof DamagedData)) throw thrown;
      this.#options.onFault(thrown);
      return null;
    }
  }

  async #findGroups(rules: readonly AlertRule[]): Promise<void> {
    if (rules.length === 0) return;
    for (const found of await this.#options.groups())
      for (const rule of rules)
        if ((found.group.firstAt ?? 0) >= rule.createdAt && concerns(rule, found.group))
          await this.#raise(rule, groupOf(found));
  }

  async #findQueues(rules: readonly AlertRule[]): Promise<void> {
    if (rules.length === 0) return;
    const now = this.#options.clock.now();
    const queues = await this.#options.queues();
    const old = new Set<string>();
    for (const rule of rules) {
      const afterMs = rule.afterMs ?? AFTER_MS;
      const isOld = ({ since }: OldQueue): boolean => now - since > afterMs;
      for (const queue of queues.filter(isOld)) {
        const key = `${rule.id} ${queue.use}`;
        old.add(key);
        if (this.#oldBefore.has(key)) await this.#raise(rule, queueOf(queue, showDuration(afterMs)));
      }
      await this.#forgetQueues(rule, new Set(queues.filter(isOld).map(({ use }) => use)));
    }
    this.#oldBefore = old;
  }

  /** Deletes sent alerts of queues that are no longer old, so that such a queue can cause another alert. */
  async #forgetQueues(rule: AlertRule, old: ReadonlySet<string>): Promise<void> {
    const { store } = this.#options;
    const stored = await listDocuments(store, alertForm, { after: `${CAUSE} `, max: 1_000 });
    for (const one of stored) {
      if (one.damage !== undefined || one.value.state === "open") continue;
      const { rule: id, when, key } = one.value;
      if (id !== rule.id || when !== "queue.old" || old.has(key)) continue;
      await store.putDocument(ALERT_KIND, one.id, null);
      // @plant queue that is young again counts as told
      this.#known.delete(one.id);
    }
  }

  /**
   * Stores an alert, unless it is stored already. With `time` the alert's id begins with the time, for causes of which there can be many.
   */
  async #raise(rule: AlertRule, happening: Happening, time?: number): Promise<void> {
    const id = `${time === undefined ? CAUSE : timeText(time)} ${idText(rule, happening)}`;
    if (this.#known.has(id)) return;
    const alert: StoredAlert = {
      ...happening,
      ...{ rule: rule.id, when: rule.when, to: rule.to, state: "open", tries: 0 },
      ...{ dueAt: this.#options.clock.now(), sentAt: null, error: null },
    };
    await this.#options.store.swapDocument(ALERT_KIND, id, { was: null, body: JSON.stringify(alert) });
    this.#known.add(id);
    const [oldest] = this.#known;
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest);
  }

  /** Tries to send the open alerts that are due, and deletes alerts that were sent long ago. */
  async #sendDue(): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    let oldest = now - 2 * BACK_MS;
    const lanes = new Map<string, TargetLane>();
    try {
      for await (const one of allDocuments(store, alertForm, timeText(this.#openFrom))) {
        if (one.damage !== undefined) continue;
        const { id, body, value: alert } = one;
        if (alert.state === "open") {
          if (!id.startsWith(CAUSE)) oldest = Math.min(oldest, alert.at);
          if (alert.dueAt <= now) this.#queue(lanes, alert.to, () => this.#send(id, body, alert));
        } else if (id.startsWith(CAUSE) && alert.when !== "queue.old" && now - alert.at > KEPT_MS)
          await store.putDocument(ALERT_KIND, id, null);
      }
    } finally {
      await Promise.all([...lanes.values()].map(({ last }) => last));
    }
    // All alerts whose id has an earlier time are sent or given up. A new alert has a cause of the last hour, so the next round can begin
    // here.
    this.#openFrom = Math.max(0, oldest - 1);
  }

  /**
   * Sends an alert after the earlier alerts to the same target. A target that does not accept an alert gets no more in this
   * round, so that it does not delay other targets. The remaining alerts stay open for the next round.
   */
  #queue(lanes: Map<string, TargetLane>, to: string, send: () => Promise<boolean>): void {
    const lane: TargetLane = lanes.get(to) ?? { count: 0, isDown: false, last: Promise.resolve() };
    lanes.set(to, lane);
    if (lane.count === ROUND_MAX) return;
    lane.count++;
    lane.last = lane.last.then(async () => {
      if (!lane.isDown && !this.#isClosed) lane.isDown = !(await send());
    });
  }

  /** Tries to send an alert; false if the target did not accept it. */
  async #send(id: string, was: string, alert: StoredAlert): Promise<boolean> {
    const { store, clock, sender } = this.#options;
    const tries = alert.tries + 1;
    const taken = JSON.stringify({
      ...{ ...alert, tries },
      /* @plant claim of an alert without a time */ dueAt: clock.now() + TRY_MS,
    });
    // Only the node whose swap succeeds tries.
    // @plant alert sent by nodes that did not claim it
    if (!(await store.swapDocument(ALERT_KIND, id, { was, body: taken }))) return true;
    const rule = { id: alert.rule, when: alert.when, to: alert.to };
    const message = { id: id.slice(id.indexOf(" ") + 1), rule, happening: alert, isTest: false };
    const error = await sender.send(alert.to, message, this.#closing.signal);
    if (error !== null && this.#isClosed) return false;
    const now = clock.now();
    const ended: StoredAlert =
      error === null
        ? { ...alert, tries, /* @plant sent alert stays open */ state: "sent", sentAt: now, error: null }
        : {
            ...{ ...alert, tries, state: tries < TRIES_MAX ? "open" : "failed", error },
            dueAt: now + backOffMs(tries, { minMs: 5_000, maxMs: 900_000 }),
          };
    await store.swapDocument(ALERT_KIND, id, { was: taken, body: JSON.stringify(ended) });
    return error === null;
  }
}

/** The alerts of one round to one target: their number, whether the target has refused one, and the promise of the last send. */
interface TargetLane {
  count: number;
  isDown: boolean;
  last: Promise<void>;
}

/** The id of an alert, which its target sees: the same in each try and at each node. */
function idText(rule: Pick<AlertRule, "id">, { key }: Happening): string {
  return `alert_${sha256(`${rule.id}\n${key}`).slice(0, 32)}`;
}

function timeText(at: number): string {
  return String(at).padStart(TIME_DIGITS, "0");
}

/** Returns the id under which the start time of a rule of the configuration file is stored. Rules of the API cannot have such an id. */
function fileId(id: string): string {
  return `file:${id}`;
}

function isFileId(id: string): boolean {
  return id.startsWith("file:");
}
