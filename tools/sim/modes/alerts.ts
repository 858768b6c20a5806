/**
 * Alerts: several nodes look for causes and send alerts, while nodes die and come back, answers of the store and of the target
 * are lost, failures become visible late, and the target is away at times. At the end every cause was told once. It may be told
 * again only if a node could not know whether the target had taken the alert.
 *
 * The alerts are asynchronous code, so the run is too: after each planned call, all promises go on until nothing is left to do.
 */
import type { Happening } from "../../../src/server/alerts/alert.ts";
import type { FailedExecution, OldQueue } from "../../../src/server/alerts/alert-causes.ts";
import type { AlertMessage } from "../../../src/server/alerts/alert-sender.ts";
import { Alerts, type AlertsOptions } from "../../../src/server/alerts/alerts.ts";
import type { ClusterShown } from "../../../src/server/parts.ts";
import type { FoundGroup } from "../../../src/server/services/dead-letter-groups.ts";
import { type Clock, systemClock } from "../../../src/std/clock.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { StoreFault } from "../../../src/store/store.ts";
import { Timeline } from "../timeline.ts";
import { must, Trace, type TracedRun, traced } from "../trace.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const NODES = 3;
/** Causes begin when every node knows the rules, and end before the faults do. */
const CAUSES_FROM = 2 * MINUTE;
const CAUSES_UNTIL = 26 * MINUTE;
const HEAL_AT = 30 * MINUTE;
const END_AT = 40 * MINUTE;
const FAILURES = 25;
const GROUPS = 5;
/** A queue is old for a time, then young for a time. */
const INCIDENTS = 2;
const OLD_MS = 8 * MINUTE;
const YOUNG_MS = 5 * MINUTE;
const AFTER_MS = 2 * MINUTE;
/** How late a failure can become visible after the time of its end. */
const LATE_MS = 20 * SECOND;
const STORE_FAULTS = 0.01;
/** The longest time between two deaths; in every third seed nodes live long, so that what they keep in memory counts. */
const DEATHS_MS = 2 * MINUTE;
const RARE_DEATHS_MS = 20 * MINUTE;

const RULES: AlertsOptions["rules"] = [
  { id: "failing", when: "execution.failed", workflow: "pay", to: "ops" },
  { id: "errors", when: "error.new", to: "ops" },
  { id: "queues", when: "queue.old", afterMs: AFTER_MS, to: "steady" },
  { id: "nodes", when: "node.died", to: "steady" },
];

/** A process with its alerts. A new one has another incarnation. */
interface Node {
  readonly url: string;
  readonly incarnation: string;
  isAlive: boolean;
  /** The ring as this node knows it. */
  living: readonly Node[];
  readonly deaths: { readonly url: string; readonly incarnation: string; readonly at: number }[];
}

/** A cause, with its tellings, and how often a node could not know whether the target had taken it. */
interface Cause {
  readonly text: string;
  told: number;
  unsure: number;
  isOwed: boolean;
}

/** Runs the alerts of a seed. */
export function runAlerts(seed: number, show: ((line: string) => void) | null): Promise<TracedRun> {
  return traced(new AlertsWorld(seed, show));
}

class AlertsWorld {
  readonly trace: Trace;
  readonly kinds = new Set<string>();
  readonly #timeline = new Timeline();
  readonly #from = this.#timeline.now;
  readonly #random: SeededRandom;
  readonly #deathsMs: number;
  readonly #store = new MemoryStore();
  readonly #nodes: Node[] = [];
  readonly #causes = new Map<string, Cause>();
  /** Failed executions, and from when on lists show them. */
  readonly #failed = new Map<string, FailedExecution & { readonly visibleAt: number }>();
  readonly #groups: FoundGroup["group"][] = [];
  #queueSince: number | null = null;
  #incident = 0;
  #isAway = false;
  #started = 0;
  #fault: Error | null = null;

  constructor(seed: number, show: ((line: string) => void) | null) {
    this.trace = new Trace(show);
    this.#random = new SeededRandom(`alerts ${seed}`);
    this.#deathsMs = seed % 3 === 0 ? RARE_DEATHS_MS : DEATHS_MS;
  }

  async run(): Promise<void> {
    await this.#store.open();
    for (let i = 0; i < NODES; i++) this.#start(`n${i}`);
    this.#planFailures();
    this.#planGroups();
    this.#planQueue();
    this.#planDeaths();
    this.#planAbsences();
    while (this.#elapsed < END_AT && this.#timeline.next()) {
      await settled();
      if (this.#fault !== null) throw this.#fault;
    }
    for (const cause of this.#causes.values()) {
      must(cause.told > 0 || !cause.isOwed, `nobody was told: ${cause.text}`);
      this.#checkOnce(cause);
    }
  }

  get #elapsed(): number {
    return this.#timeline.now - this.#from;
  }

  #at(elapsed: number, run: () => void): void {
    this.#timeline.after(elapsed - this.#elapsed, run);
  }

  #note(what: string): void {
    this.trace.note(this.#timeline.now, what);
  }

  #checkOnce({ text, told, unsure }: Cause): void {
    must(told <= 1 + unsure, `told ${told} times, of which ${unsure} had an unknown end: ${text}`);
  }

  #start(url: string): void {
    const node: Node = {
      url,
      incarnation: `${url}.${this.#started++}`,
      isAlive: true,
      living: [],
      deaths: [],
    };
    this.#nodes.push(node);
    this.#note(`${node.incarnation} starts`);
    node.living = this.#living;
    this.#noticeChange();
    const clock: Clock = {
      now: () => this.#timeline.now,
      after: (ms, run) => {
        let isCancelled = false;
        this.#timeline.after(ms, () => {
          if (node.isAlive && !isCancelled) run();
        });
        return () => {
          isCancelled = true;
        };
      },
      soon: (run) => this.#timeline.after(0, () => node.isAlive && run()),
    };
    new Alerts({
      ...{ clock, rules: RULES, isPeriodic: true, store: this.#storeOf(node) },
      sender: {
        refusalOf: () => null,
        send: (to, message) => this.#deliver(node, to, message),
      },
      failed: (id) => this.#call(node, async () => this.#failed.get(id) ?? null),
      groups: () => this.#call(node, async () => this.#groups.map((group) => ({ group, letters: [] }))),
      queues: () => this.#call(node, async () => this.#queues),
      ring: () => ringOf(node),
      onFault: (fault) => this.#note(`${node.incarnation}: ${fault.message}`),
    });
  }

  get #living(): readonly Node[] {
    return this.#nodes.filter(({ isAlive }) => isAlive);
  }

  /** Nodes learn at different times who lives. */
  #noticeChange(): void {
    for (const node of this.#living)
      this.#timeline.after(this.#random.below(3 * SECOND), () => {
        node.living = this.#living;
      });
  }

  #storeOf(node: Node): AlertsOptions["store"] {
    const store = this.#store;
    return {
      listDocuments: (...args) => this.#call(node, () => store.listDocuments(...args)),
      getDocument: (...args) => this.#call(node, () => store.getDocument(...args)),
      putDocument: (...args) => this.#call(node, () => store.putDocument(...args)),
      swapDocument: (kind, id, swap) =>
        this.#call(
          node,
          () => store.swapDocument(kind, id, swap),
          // A write that fails after the target took the alert leaves it open.
          () => this.#unsure(id.slice(id.indexOf(" ") + 1)),
        ),
      listEnded: ({ finishedFrom = 0, finishedBefore, max }) =>
        this.#call(node, async () =>
          [...this.#failed.values()]
            .filter(
              ({ finishedAt, visibleAt }) =>
                finishedAt >= finishedFrom && finishedAt < finishedBefore && visibleAt <= this.#timeline.now,
            )
            .sort((a, b) => a.finishedAt - b.finishedAt)
            .slice(0, max)
            .map(({ id }) => id),
        ),
    };
  }

  /** A call over the network: it takes its time, fails now and then, and never ends for a node that is dead. */
  #call<T>(node: Node, run: () => Promise<T>, onLost: () => void = () => undefined): Promise<T> {
    const random = this.#random;
    return new Promise((resolve, reject) => {
      this.#timeline.after(random.below(20), () => {
        if (!node.isAlive) return onLost();
        const hasFault = this.#elapsed < HEAL_AT && random.chance(STORE_FAULTS);
        if (hasFault && random.chance(0.5)) {
          onLost();
          return reject(faultOf(true));
        }
        void run().then((value) =>
          this.#timeline.after(random.below(20), () => {
            if (!node.isAlive) return onLost();
            if (!hasFault) return resolve(value);
            onLost();
            reject(faultOf(false));
          }),
        );
      });
    });
  }

  /** The target takes an alert or refuses it; the answer is lost if the node dies meanwhile. */
  #deliver(node: Node, to: string, { id, rule, happening }: AlertMessage): Promise<string | null> {
    const random = this.#random;
    return new Promise((resolve) => {
      this.#timeline.after(random.below(random.chance(0.1) ? 15 * SECOND : 500), () => {
        if (!node.isAlive) return;
        const isTaken = to === "steady" || !this.#isAway;
        if (isTaken) this.#take(node, `${rule.id} ${happening.key}`, happening);
        this.#timeline.after(random.below(300), () => {
          if (node.isAlive) resolve(isTaken ? null : "the target answered 503");
          else if (isTaken) this.#unsure(id);
        });
        if (isTaken) this.#alertIds.set(id, this.#keyOf(`${rule.id} ${happening.key}`));
      });
    });
  }

  /** The causes of the ids that the target has seen. */
  readonly #alertIds = new Map<string, string>();

  #unsure(alert: string): void {
    const cause = this.#causes.get(this.#alertIds.get(alert) ?? "");
    if (cause !== undefined) cause.unsure++;
  }

  /** The key of a cause: each incident of a queue is one of its own. */
  #keyOf(key: string): string {
    return key.startsWith("queues ") ? `${key} ${this.#incident}` : key;
  }

  #take({ incarnation }: Node, key: string, { text }: Happening): void {
    this.#note(`${incarnation} tells ${text}`);
    const cause = this.#causes.get(this.#keyOf(key));
    must(cause !== undefined, `this is no cause: ${text}`);
    cause.told++;
    this.kinds.add(key.slice(0, key.indexOf(" ")));
    this.#checkOnce(cause);
  }

  #cause(key: string, text: string, isOwed = true): Cause {
    const cause = { text, told: 0, unsure: 0, isOwed };
    this.#note(`cause: ${text}`);
    this.#causes.set(this.#keyOf(key), cause);
    return cause;
  }

  #planFailures(): void {
    for (let i = 0; i < FAILURES; i++)
      this.#at(CAUSES_FROM + this.#random.below(CAUSES_UNTIL - CAUSES_FROM), () => this.#fail(`x${i}`));
  }

  #fail(id: string): void {
    const random = this.#random;
    const now = this.#timeline.now;
    const workflow = random.chance(0.8) ? "pay" : "other";
    const visibleAt = now + (random.chance(0.3) ? random.below(LATE_MS) : 0);
    this.#failed.set(id, { id, workflow, project: "default", finishedAt: now, error: "declined", visibleAt });
    if (workflow === "other") return;
    const cause = this.#cause(`failing ${id} ${now}`, `${id} failed at ${now}`);
    // A retry that fails again is another cause. It happens after somebody was told.
    const retry = (): void => {
      if (this.#elapsed > CAUSES_UNTIL) return;
      if (cause.told > 0) this.#fail(id);
      else this.#timeline.after(MINUTE, retry);
    };
    if (random.chance(0.3)) this.#timeline.after(2 * MINUTE, retry);
  }

  #planGroups(): void {
    for (let i = 0; i < GROUPS; i++)
      this.#at(CAUSES_FROM + this.#random.below(CAUSES_UNTIL - CAUSES_FROM), () => {
        const id = `g${i}`;
        const group = {
          ...{ id, workflow: "pay", project: "default", name: "Error", message: id, tasks: 1 + i },
          ...{ firstAt: this.#timeline.now, sample: { execution: "e", task: 0 } },
        } as unknown as FoundGroup["group"];
        this.#cause(`errors ${id}`, `group ${id}`);
        this.#groups.push(group);
        // The first letters are dropped: the group seems to be younger.
        this.#timeline.after(this.#random.below(5 * MINUTE), () => {
          this.#groups[this.#groups.indexOf(group)] = { ...group, tasks: 50, firstAt: this.#timeline.now };
        });
      });
  }

  get #queues(): readonly OldQueue[] {
    return [{ use: "pay.charge", tasks: 3, since: this.#queueSince ?? this.#timeline.now }];
  }

  #planQueue(): void {
    for (let i = 0; i < INCIDENTS; i++) {
      const begin = CAUSES_FROM + i * (OLD_MS + YOUNG_MS);
      this.#at(begin, () => {
        this.#queueSince = this.#timeline.now;
        this.#incident++;
        this.#cause("queues pay.charge", `the queue is old for the time ${this.#incident}`);
      });
      this.#at(begin + OLD_MS, () => {
        this.#queueSince = null;
      });
    }
  }

  #planDeaths(): void {
    const next = (): void => {
      if (this.#elapsed > HEAL_AT) return;
      const living = this.#living;
      if (living.length > 1) this.#kill(this.#random.pick(living));
      this.#timeline.after(10 * SECOND + this.#random.below(this.#deathsMs), next);
    };
    this.#at(CAUSES_FROM, next);
  }

  #kill(node: Node): void {
    node.isAlive = false;
    const death = { url: node.url, incarnation: node.incarnation, at: this.#timeline.now };
    const cause = this.#cause(`nodes ${node.url} ${node.incarnation}`, `${node.incarnation} died`, false);
    this.#noticeChange();
    for (const other of this.#living)
      this.#timeline.after(this.#random.below(8 * SECOND), () => {
        if (other.isAlive) other.deaths.push(death);
      });
    // A death that only dead nodes noticed is not told.
    this.#at(END_AT - MINUTE, () => {
      cause.isOwed = this.#living.some(({ deaths }) => deaths.includes(death));
    });
    this.#timeline.after(this.#random.below(MINUTE), () => this.#start(node.url));
  }

  #planAbsences(): void {
    const next = (): void => {
      this.#isAway = !this.#isAway && this.#elapsed < HEAL_AT;
      if (this.#elapsed < HEAL_AT)
        this.#timeline.after(this.#isAway ? this.#random.below(30 * SECOND) : 2 * MINUTE, next);
    };
    this.#at(CAUSES_FROM, next);
  }
}

function faultOf(nothingWritten: boolean): StoreFault {
  return new StoreFault("the database does not answer", { retryable: true, nothingWritten });
}

function ringOf({ url, living, deaths }: Node): ClusterShown {
  const nodes = living.map((one) => ({ url: one.url, incarnation: one.incarnation, suspect: false }));
  return { ring: { url, nodes, deaths } } as unknown as ClusterShown;
}

const clock = systemClock();

/** Resolves when all promises have gone on. */
function settled(): Promise<void> {
  return new Promise((resolve) => clock.soon(resolve));
}
