/**
 * An engine node driven by hand over tables in memory. Reads are answered at once; commits are made at once too,
 * unless `holdsCommits` is set: then they wait for `commit()`, `loseCommit()` or `commitUnheard()`. Reads of a kind that
 * is in `held` are made at once, and answered by `answer(kind)`. Everything that left the node is kept, in order, in
 * `outputs`.
 */
import type { Input, Inspection, JoinOptions, Output } from "../../src/engine/io.ts";
import { EngineNode } from "../../src/engine/node.ts";
import type { PostOpTask } from "../../src/engine/post-ops/post-ops.ts";
import type { Settings } from "../../src/engine/settings.ts";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../src/kernel/definition/plan.ts";
import type { EventKind, Recorded } from "../../src/kernel/event.ts";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import type { Answer, ControlMessage, Outcome, PostOpOutcome, Verdict } from "../../src/kernel/message.ts";
import type { Report, Serves } from "../../src/protocol/work.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { answerRead } from "./answer-read.ts";
import {
  type Attempt,
  claimOf,
  logLines,
  pageOf,
  placeOf,
  receiptOf,
  runDone,
  sealOf,
  startOf,
  stepDone,
} from "./attempt-reports.ts";
import type { EventOf } from "./scenarios/kernel-run.ts";

export { type Attempt, placeOf } from "./attempt-reports.ts";

type OutputOf<K extends Output["kind"]> = Extract<Output, { kind: K }>;

export class NodeBench {
  readonly tables: MemoryTables;
  readonly settings: Partial<Settings>;
  node: EngineNode;
  now = 1_000_000;
  outputs: Output[] = [];
  holdsCommits = false;
  /** Kinds of reads whose answers wait. */
  readonly held = new Set<Output["kind"]>();
  #answers: { kind: Output["kind"]; answer: Input }[] = [];
  readonly #plans = new Map<string, Plan>();
  #waiting: OutputOf<"commit">[] = [];
  #requests = 0;

  constructor(settings: Partial<Settings> = {}, tables = new MemoryTables({ random: new SeededRandom(1) })) {
    this.settings = settings;
    this.tables = tables;
    this.node = new EngineNode(tables.open(), this.now, settings);
    this.settle();
  }

  /** A plan of a definition, or of its phases; its definition is in the store. */
  plan(definition: unknown, name = "w"): Plan {
    const whole = Array.isArray(definition) ? { name, phases: definition } : definition;
    const plan = compilePlan(unwrap(parseDefinition(whole)));
    this.#plans.set(plan.hash, plan);
    this.tables.putDefinition(plan.definition.name, plan.hash, JSON.stringify(plan.definition));
    return plan;
  }

  /** Feeds an input in; nothing happens before `settle` or `advance`. */
  input(input: Input): void {
    this.node.input(input, this.now);
  }

  /** One turn of the node; reads are answered, commits wait. Gives what came out. */
  advance(): Output[] {
    const outputs = this.node.advance(this.now);
    this.outputs.push(...outputs);
    for (const output of outputs) this.#perform(output);
    return outputs;
  }

  /** Turns until nothing comes out any more. */
  settle(): void {
    for (let turn = 0; turn < 100_000; turn++) {
      const isQuiet = this.advance().length === 0;
      if (!this.holdsCommits && this.#waiting.length > 0) this.commit();
      else if (isQuiet) return;
    }
    throw new Error("the node does not come to rest");
  }

  /** Time passes; the node is woken whenever it asked to be. */
  sleep(ms: number): void {
    const until = this.now + ms;
    this.settle();
    while (this.node.nextWakeAt() <= until) {
      this.now = Math.max(this.now, this.node.nextWakeAt());
      this.settle();
    }
    this.now = until;
    this.settle();
  }

  /** Commits that have not reached the store. */
  get waiting(): readonly OutputOf<"commit">[] {
    return this.#waiting;
  }

  /** The oldest waiting commit is made, and its verdict told. */
  commit(): void {
    const { commit, content } = this.#next();
    this.input({ kind: "committed", commit, verdict: this.tables.commit(content) });
    this.tables.settle();
  }

  /** The store is down: nothing is written, and the node is told so or not. */
  loseCommit(nothingWritten = true): void {
    const { commit } = this.#next();
    this.input({ kind: "commit-failed", commit, nothingWritten });
  }

  /** The commit is made, but the answer is lost. */
  commitUnheard(): void {
    const { commit, content } = this.#next();
    this.tables.commit(content);
    this.tables.settle();
    this.input({ kind: "commit-failed", commit, nothingWritten: false });
  }

  /** The process dies, with or without a clean close; another node opens the same tables. */
  restart(options: { clean: boolean } = { clean: false }): void {
    if (options.clean) this.tables.close(this.fence, { clean: true });
    this.#waiting = [];
    this.#answers = [];
    this.outputs = [];
    this.node = new EngineNode(this.tables.open(), this.now, this.settings);
    this.settle();
  }

  #fence: Extract<Output, { kind: "commit" }>["content"]["fence"] | null = null;

  /** The fence of the last commit. */
  get fence(): OutputOf<"commit">["content"]["fence"] {
    if (this.#fence === null) throw new Error("nothing was committed");
    return this.#fence;
  }

  start(
    plan: Plan,
    id: string,
    options: { input?: unknown; project?: string; startAt?: number; deadline?: number } = {},
  ): number {
    const { input = null, project = "default", ...times } = options;
    const message = {
      kind: "start" as const,
      execution: id,
      workflow: plan.definition.name,
      hash: plan.hash,
      project,
      input: JSON.stringify(input),
      tags: {},
      ...times,
    };
    return this.request({ execution: id, message, plan });
  }

  control(kind: ControlMessage["kind"], execution: string, id = `c${this.#requests}`): number {
    return this.request({ execution, message: { kind, id, by: "ann", reason: null } });
  }

  signal(execution: string, signal: string, data: unknown = null, id = `s${this.#requests}`): number {
    return this.request({ execution, message: { kind: "signal", id, signal, data: JSON.stringify(data) } });
  }

  request(request: Omit<Extract<Input, { kind: "request" }>, "kind" | "request">): number {
    this.input({ kind: "request", request: ++this.#requests, ...request });
    return this.#requests;
  }

  reply(request: number): Answer | undefined {
    return this.of("reply").find((output) => output.request === request)?.answer;
  }

  join(worker: string, uses: readonly (string | Serves)[], options: Partial<JoinOptions> = {}): void {
    const serves = uses.map((use) => (typeof use === "string" ? { use } : use));
    this.input({ kind: "worker-joined", worker, capacity: 10, local: true, ...options, serves });
  }

  leave(worker: string): void {
    this.input({ kind: "worker-left", worker });
  }

  claim(worker: string, max: number): void {
    this.input({ kind: "worker-claims", worker, max });
  }

  /** Everything granted so far, item by item. */
  attempts(worker?: string): Attempt[] {
    return this.of("grant")
      .filter((output) => worker === undefined || output.worker === worker)
      .flatMap(({ worker, grant }) => grant.items.map((item) => ({ worker, grant, item })));
  }

  report(worker: string, ...reports: Report[]): number {
    this.input({ kind: "worker-reports", worker, report: ++this.#requests, reports });
    return this.#requests;
  }

  /** The receipt of an attempt: done unless it is said otherwise. */
  receipt(attempt: Attempt, outcome: Partial<Outcome> = {}): number {
    return this.report(attempt.worker, receiptOf(attempt, outcome));
  }

  started(...attempts: readonly Attempt[]): void {
    for (const attempt of attempts) this.report(attempt.worker, startOf(attempt));
  }

  beat({ worker, grant, item }: Attempt): void {
    const beats = [{ ...placeOf(grant), attempts: [claimOf(item)] }];
    this.input({ kind: "worker-beats", worker, beats });
  }

  /** Gives claims back that nobody has begun. */
  release(worker: string, ...attempts: readonly Attempt[]): void {
    for (const { grant, item } of attempts) {
      const beats = [{ ...placeOf(grant), attempts: [claimOf(item)] }];
      this.input({ kind: "worker-releases", worker, beats });
    }
  }

  /** A step of an attempt is done. */
  step(attempt: Attempt, name: string, result: unknown = null): number {
    return this.report(attempt.worker, stepDone(attempt, name, result));
  }

  /** A run of an attempt is finished. */
  run(attempt: Attempt, index: number, state: unknown = null): number {
    return this.report(attempt.worker, runDone(attempt, index, state));
  }

  /** An attempt logs lines, numbered from `n`. */
  logs(attempt: Attempt, n: number, ...texts: string[]): number {
    const lines = texts.map((text, i) => ({ n: n + i, at: this.now, level: "info", text }));
    return this.report(attempt.worker, logLines(attempt, lines));
  }

  /** The texts of all lines that are stored, in order. */
  lines(execution: string): string[] {
    const rows = this.tables.readLogs({ execution, after: 0, rowsMax: 10_000 });
    return rows.flatMap(({ lines }) => lines.map(({ text }) => text));
  }

  page(attempt: Attempt, from: number, tasks: readonly unknown[], keys?: string[]): number {
    return this.report(attempt.worker, pageOf(attempt, { from, tasks, keys }));
  }

  seal(attempt: Attempt, outcome: Partial<Outcome> = {}): number {
    return this.report(attempt.worker, sealOf(attempt, outcome));
  }

  /** Answers every attempt as it is granted, until nothing is granted any more; gives what was granted, in order. */
  work(answer: (attempt: Attempt) => Partial<Outcome> | null = () => ({}), attemptsMax = 100_000): Attempt[] {
    const seen: Attempt[] = [];
    let from = this.outputs.length;
    this.settle();
    for (;;) {
      const fresh = this.outputs.slice(from).filter((output) => output.kind === "grant");
      from = this.outputs.length;
      if (fresh.length === 0 || seen.length >= attemptsMax) return seen;
      for (const { worker, grant } of fresh) {
        for (const item of grant.items) {
          const attempt = { worker, grant, item };
          seen.push(attempt);
          const outcome = answer(attempt);
          if (outcome !== null && grant.do !== "enumerate") this.receipt(attempt, outcome);
        }
      }
      this.settle();
    }
  }

  verdicts(report: number): readonly (readonly Verdict[])[] | undefined {
    return this.of("verdicts").find((output) => output.report === report)?.verdicts;
  }

  of<K extends Output["kind"]>(kind: K): OutputOf<K>[] {
    return this.outputs.filter((output) => output.kind === kind) as OutputOf<K>[];
  }

  /** Post-operations that were given out so far, in order. */
  get errands(): PostOpTask[] {
    return this.of("perform").map(({ task }) => task);
  }

  /** A try at a post-operation has ended: done unless there is an error. */
  performed({ execution, id, attempt }: PostOpTask, error?: string, more: { fatal?: true } = {}): void {
    const outcome: PostOpOutcome =
      error === undefined
        ? { kind: "done" }
        : { kind: "failed", error: { name: "Error", message: error }, ...more };
    this.input({ kind: "performed", execution, op: id, attempt, outcome });
  }

  inspect(execution: string): Inspection {
    const request = ++this.#requests;
    this.input({ kind: "inspect", request, execution });
    this.settle();
    const found = this.of("inspected").find((output) => output.request === request);
    if (found === undefined) throw new Error(`${execution} was not inspected`);
    return unwrap(found.inspection);
  }

  /** Letters that are in the store, as receiver and kind. */
  get letters(): string[] {
    return this.tables
      .scanMail({ after: 0, max: 10_000, partitions: null })
      .map(({ to, body }) => `${to} ${(JSON.parse(body) as { kind: string }).kind}`);
  }

  /** The journal as it is in the store. */
  journal(execution: string): Recorded[] {
    return this.tables.readJournal({ execution, from: 1 }).flatMap(decodeEntry);
  }

  kinds(execution: string): EventKind[] {
    return this.journal(execution).map(({ event }) => event.kind);
  }

  events<K extends EventKind>(execution: string, kind: K): EventOf<K>[] {
    return this.journal(execution)
      .map(({ event }) => event)
      .filter((event) => event.kind === kind) as never;
  }

  status(execution: string): string | undefined {
    return this.tables.load([execution])[0]?.head.status;
  }

  /** How many reads wait for their answers. */
  get heldReads(): number {
    return this.#answers.length;
  }

  /** Answers the oldest held read of this kind, with what was there when it was made. */
  answer(kind: Output["kind"]): void {
    const at = this.#answers.findIndex((held) => held.kind === kind);
    const [found] = at < 0 ? [] : this.#answers.splice(at, 1);
    if (found === undefined) throw new Error(`no ${kind} waits`);
    this.input(found.answer);
  }

  #next(): OutputOf<"commit"> {
    const next = this.#waiting.shift();
    if (next === undefined) throw new Error("no commit waits");
    this.#fence = next.content.fence;
    return next;
  }

  #perform(output: Output): void {
    if (output.kind === "commit") this.#waiting.push(output);
    if (output.kind === "purge") this.tables.purge(output.ids);
    if (output.kind === "store-home") {
      const { partition, home } = output;
      this.tables.putDocument("permits", String(partition), JSON.stringify(home));
      this.input({ kind: "home-stored", partition, epoch: home.epoch, isStored: true });
    }
    const answer = answerRead(this.tables, this.#plans, output);
    if (answer === null) return;
    if (this.held.has(output.kind)) this.#answers.push({ kind: output.kind, answer });
    else this.input(answer);
  }
}
