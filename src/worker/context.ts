/** The context objects of user code. Costly parts (abort signal, readers, logs, steps) are made on first use. */
import { LIMITS } from "../kernel/definition/definition.ts";
import { whyNoName } from "../kernel/definition/names.ts";
import type { Items } from "../kernel/definition/task-name.ts";
import type { Outcome, RunNotice, TaskWait } from "../kernel/message.ts";
import { PUBLISHED_BYTES_MAX } from "../kernel/published.ts";
import { SIGNAL_REFUSED } from "../kernel/tasks/checkpoint.ts";
import { updateSignal } from "../kernel/updates.ts";
import { encodeAttempt, reportedAttempt } from "../protocol/attempt-id.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import { isHandler } from "../protocol/handler-brand.ts";
import { idempotencyKey } from "../protocol/idempotency-key.ts";
import { WaitTimeout } from "../protocol/step-errors.ts";
import type { RefusedUpdate, UpdateAnswer } from "../protocol/update-answer.ts";
import type { Grant, GrantItem, Report } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { jsonFields } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { sha256 } from "../std/hash.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import type { LoggedLine } from "./attempt-place.ts";
import { AttemptStreams } from "./attempt-streams.ts";
import type {
  BatchAttempt,
  BatchContext,
  ChildWorkflow,
  Declared,
  EnumerateContext,
  HandlerCode,
  Log,
  MapContext,
  MapHandler,
  PhasesReader,
  ProcessContext,
  StepCode,
  StepOptions,
  UpdateRequest,
  UpdateWaitOptions,
  WaitFor,
} from "./handler-code.ts";
import { type ChildStart, JournaledSteps } from "./journaled-steps.ts";
import { AttemptLog } from "./log/attempt-log.ts";
import { fieldsOf, showParts, storedFields } from "./log/log-text.ts";
import type { Secrets } from "./log/secrets.ts";
import { AddedTasks, handedBack } from "./outcome.ts";
import type { Reporter } from "./reporter.ts";
import { type ResultsSource, readPhases } from "./results-reader.ts";
import type { Running } from "./running.ts";
import type { Tracing } from "./tracing.ts";

/** The objects that all attempts of a worker share. */
export interface Around {
  readonly clock: Clock;
  readonly results: ResultsSource;
  readonly reporter: Reporter;
  readonly secrets: Secrets;
  /** Called at once with each logged line; with redacted texts if the worker has secrets. */
  readonly onLog: (grant: Grant, item: GrantItem, logged: LoggedLine) => void;
  /** Why steps and earlier results are not available at this worker; null if they are available. */
  readonly lacks: string | null;
  /** Ends an attempt whose code still runs. */
  readonly end: (running: Running, outcome: Outcome) => void;
}

/** The objects that all contexts of one grant share. */
export interface Shared {
  readonly grant: Grant;
  /** The grant under which receipts are collected. Consecutive grants of one handler are reported together, under the first of them. */
  readonly lead: Grant;
  readonly code: HandlerCode | undefined;
  /** The input of the workflow as handlers get it. */
  readonly input: unknown;
  readonly around: Around;
  /** The tracing of the grant; null if the program has no tracer. */
  readonly tracing: Tracing | null;
}

interface LineOptions {
  readonly text?: string;
  readonly run?: string;
}

/** Random values that are the same in each attempt of a task. They are derived from the task's idempotency key and a name. */
class DerivedValues {
  readonly #key: string;
  #randoms = 0;
  #uuids = 0;

  constructor(key: string) {
    this.#key = key;
  }

  /** Returns a number from 0 up to 1. Without a name, the n-th call of each attempt returns the same number. */
  random(name?: string): number {
    const drawn = this.#draw("random", name ?? `#${++this.#randoms}`);
    // A double holds 52 bits exactly.
    return Number.parseInt(drawn.slice(0, 13), 16) / 2 ** 52;
  }

  /**
   * Returns a UUID of version 8, whose bits are derived from the task. Without a name, the n-th call of each attempt returns
   * the same UUID.
   */
  uuid(name?: string): string {
    const hex = this.#draw("uuid", name ?? `#${++this.#uuids}`);
    const variant = ((Number.parseInt(hex[16] as string, 16) & 3) | 8).toString(16);
    return [
      hex.slice(0, 8),
      hex.slice(8, 12),
      `8${hex.slice(13, 16)}`,
      `${variant}${hex.slice(17, 20)}`,
      hex.slice(20, 32),
    ].join("-");
  }

  #draw(kind: string, name: string): string {
    return sha256(`${kind}\n${this.#key}\n${name}`);
  }
}

class Extras {
  controller: AbortController | null = null;
  phases: PhasesReader | null = null;
  lines: AttemptLog | null = null;
  log: Log | null = null;
  steps: JournaledSteps | null = null;
  streams: AttemptStreams | null = null;
  /** How many times the code has waited for an update of each name. */
  readonly updates = new Map<string, number>();
  derived: DerivedValues | null = null;
  adds: AddedTasks | null = null;
  onOver: (() => void)[] = [];
}

/** The members that the context of every kind of code has. `item` is the attempt that its logs belong to. */
export class AttemptContext {
  readonly shared: Shared;
  readonly item: GrantItem;
  /** The outcome of the attempt once it is decided; null while the attempt is open. After that, the result of the code is ignored. */
  ending: Outcome | null = null;
  /** The running attempt, once its code has returned a promise; null before. */
  running: Running | null = null;
  #extras: Extras | null = null;

  constructor(shared: Shared, item: GrantItem) {
    this.shared = shared;
    this.item = item;
  }

  /** The tasks that the code has added; undefined if there are none. */
  get added(): Items | undefined {
    return this.#extras?.adds?.items;
  }

  get execution(): string {
    return this.shared.grant.execution;
  }

  get attempt(): number {
    return this.item.attempt;
  }

  get attemptId(): string {
    return idOf(this.shared.grant, this.item);
  }

  get now(): () => number {
    const { clock } = this.shared.around;
    return () => clock.now();
  }

  get input(): unknown {
    return this.shared.input;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get phases(): PhasesReader {
    const { grant, around, code } = this.shared;
    if (around.lacks !== null && grant.phases.length === 0) throw brandFatal(new Error(around.lacks));
    const { execution, phases, input } = grant;
    this.extras.phases ??= readPhases(execution, phases, around.results, { input, known: code?.phases });
    return this.extras.phases;
  }

  get log(): Log {
    const at =
      (level: string) =>
      (...parts: unknown[]) =>
        this.write(level, parts);
    this.extras.log ??= Object.assign(at("info"), {
      debug: at("debug"),
      info: at("info"),
      warn: at("warn"),
      error: at("error"),
    });
    return this.extras.log;
  }

  get secret(): (value: string) => string {
    return (value) => {
      this.shared.around.secrets.add(value);
      return value;
    };
  }

  /** Logs values, shown as `text`. `run` is the run of a script that logged them. */
  write(level: string, parts: readonly unknown[], { text = showParts(parts), run }: LineOptions = {}): void {
    const { grant, around } = this.shared;
    const { clock, secrets } = around;
    const { fields, rest } = fieldsOf(parts);
    const stored = Object.keys(fields).length === 0 ? undefined : storedFields(fields, secrets);
    const shown = secrets.isEmpty ? parts : [secrets.redact(text)];
    around.onLog(grant, this.item, {
      at: clock.now(),
      level,
      parts: shown,
      fields: secrets.isEmpty ? fields : ((stored === undefined ? {} : JSON.parse(stored)) as typeof fields),
      message: secrets.redact(rest.length === parts.length ? text : showParts(rest)),
    });
    if (this.ending === null) this.lines.write(level, text, { run, fields: stored });
  }

  /** Reports that a run of a script began or crashed. The lines that were logged before are reported first. */
  notice(notice: RunNotice): void {
    if (this.ending === null) this.lines.notice(notice);
  }

  protected get lines(): AttemptLog {
    const { grant, around } = this.shared;
    this.extras.lines ??= new AttemptLog(reportedAttempt(grant, this.item), {
      clock: around.clock,
      secrets: around.secrets,
      onLines: (log, isFull) => around.reporter.logged(log, isFull),
      onChunk: (log) => around.reporter.streamed(log),
      onPublished: (log) => around.reporter.published(log),
    });
    return this.extras.lines;
  }

  /** Reports the lines logged so far. Called before any other report of the attempt. */
  flushLog(): void {
    const lines = this.#extras?.lines ?? null;
    if (lines !== null) this.shared.around.reporter.reportLogs(lines);
  }

  /** Reports an event of the attempt after its logs; resolves with the verdict. */
  ask(report: Report): Promise<string | undefined> {
    this.flushLog();
    return this.shared.around.reporter.ask(report);
  }

  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /** Ends the attempt before its code ends: the code's signal is aborted and its result is ignored. */
  endWith(outcome: Outcome, reason: Error): void {
    if (this.ending !== null) return;
    this.ending = outcome;
    this.#extras?.steps?.close();
    if (this.running !== null) this.shared.around.end(this.running, outcome);
    this.abort(reason);
    this.#over();
  }

  /** Calls the listener when the attempt is over, whether its code has ended or not. */
  onOver(listener: () => void): void {
    this.extras.onOver.push(listener);
  }

  #over(): void {
    for (const listener of this.#extras?.onOver.splice(0) ?? []) listener();
  }

  close(outcome: Outcome): void {
    if (outcome.status === "done") this.#extras?.streams?.endAll();
    this.flushLog();
    this.ending = outcome;
    this.#extras?.steps?.close();
    this.#over();
  }

  get #controller(): AbortController {
    this.extras.controller ??= new AbortController();
    return this.extras.controller;
  }

  protected get extras(): Extras {
    this.#extras ??= new Extras();
    return this.#extras;
  }
}

export class TaskContext extends AttemptContext implements ProcessContext {
  readonly task: unknown;

  constructor(shared: Shared, item: GrantItem) {
    super(shared, item);
    this.task = taskOf(shared, item);
  }

  get number(): number {
    return this.item.number;
  }

  get idempotencyKey(): string {
    return idempotencyKey(this.shared.grant, this.item.number);
  }

  get outcome(): ProcessContext["outcome"] {
    return this.item.compensates?.outcome;
  }

  get result(): unknown {
    const result = this.item.compensates?.result ?? null;
    return result === null ? undefined : (JSON.parse(result) as unknown);
  }

  get progress(): (done: number, total?: number) => void {
    return (done, total) =>
      this.write("progress", [done, total], { text: total === undefined ? `${done}` : `${done}/${total}` });
  }

  get add(): ProcessContext["add"] {
    return (...items) => {
      const { code } = this.shared;
      if (code?.adds !== true)
        throw brandFatal(new Error("add: this handler may not add tasks; give it adds: true"));
      // The attempt has ended: its receipt was sent, or another attempt does the task. So nothing is added.
      if (this.ending !== null) return;
      this.extras.adds ??= new AddedTasks(code);
      for (const item of items) this.extras.adds.add(item);
    };
  }

  get step(): ProcessContext["step"] {
    const { tracing } = this.shared;
    if (tracing === null)
      return <T>(name: string, given: StepOptions | StepCode<T>, run?: StepCode<T>) =>
        this.#steps.step(name, given, run);
    const traced =
      <T>(name: string, run: StepCode<T>): StepCode<T> =>
      (context) =>
        tracing.step(name, context.attempt, () => run(context));
    return <T>(name: string, given: StepOptions | StepCode<T>, run?: StepCode<T>) =>
      typeof given === "function"
        ? this.#steps.step(name, traced(name, given))
        : this.#steps.step(name, given, typeof run === "function" ? traced(name, run) : run);
  }

  get sleep(): ProcessContext["sleep"] {
    return (name, duration) => this.#steps.sleep(name, duration);
  }

  get waitFor(): ProcessContext["waitFor"] {
    const wait: WaitFor = (name, { schema: _, ...options } = {}) =>
      typeof name === "string"
        ? this.#steps.waitFor(name, options)
        : this.#steps.waitFor(nameOfWait(name), { ...options, signal: name });
    const parsing = this.shared.code?.parsingWait?.(wait) ?? wait;
    return (given, { signal, ...options } = {}) => {
      const more = isDeclared(signal)
        ? { schema: signal.schema, ...options, signal: signal.name }
        : { ...options, ...defined({ signal }) };
      if (!isDeclared(given)) return parsing(given, more);
      return parsing(given.name, { schema: given.schema, ...more });
    };
  }

  get signals(): ProcessContext["signals"] {
    const { waitFor } = this;
    return async function* (given, more = {}) {
      const { name, schema } = isDeclared(given) ? given : { name: given };
      const options = { ...(schema === undefined ? {} : { schema }), ...more };
      for (let n = 1; ; n++) {
        const wait = waitFor(n === 1 ? name : `${name}#${n}`, { ...options, signal: name });
        const payload = await wait.catch((thrown: unknown) => {
          if (thrown instanceof WaitTimeout) return thrown;
          throw thrown;
        });
        if (payload instanceof WaitTimeout) return;
        yield payload;
      }
    };
  }

  get stream(): ProcessContext["stream"] {
    const { secrets, lacks } = this.shared.around;
    if (lacks !== null) throw brandFatal(new Error(lacks));
    return (name) => {
      this.extras.streams ??= new AttemptStreams({
        log: this.lines,
        secrets,
        inStep: () => this.extras.steps?.stepAround() ?? null,
        isOver: () => this.ending !== null,
      });
      return this.extras.streams.open(name);
    };
  }

  get publish(): ProcessContext["publish"] {
    const { secrets, lacks } = this.shared.around;
    if (lacks !== null) throw brandFatal(new Error(lacks));
    return (values) => {
      const text = toStoredText(values, { bytesMax: PUBLISHED_BYTES_MAX, what: "publish" });
      if (isRejection(text)) throw brandFatal(new Error(text.message));
      const read = jsonFields(secrets.isEmpty ? text : secrets.redactJson(text));
      const keys = Object.keys(read ?? {});
      const wrong =
        read === null ? "takes an object" : (keys.map(whyNoName).find((why) => why !== null) ?? null);
      if (read === null || wrong !== null)
        throw brandFatal(new Error(read === null ? `publish ${wrong}` : `publish: a key ${wrong}`));
      if (this.ending === null && keys.length > 0) this.lines.publish(read as Record<string, Json>);
    };
  }

  get waitForUpdate(): ProcessContext["waitForUpdate"] {
    return (name, options) => this.#nextUpdate(name, options);
  }

  get updates(): ProcessContext["updates"] {
    const next: ProcessContext["waitForUpdate"] = (name, options) => this.#nextUpdate(name, options);
    return async function* (name, options) {
      for (;;) {
        const request = await next(name, options).catch((thrown: unknown) => {
          if (thrown instanceof WaitTimeout) return null;
          throw thrown;
        });
        if (request === null) return;
        yield request;
      }
    };
  }

  /** Takes the next update of a name whose data fits the schema. Updates with other data are refused. */
  async #nextUpdate(
    update: string | Declared,
    { schema = isDeclared(update) ? update.schema : undefined, ...options }: UpdateWaitOptions = {},
  ): Promise<UpdateRequest<unknown>> {
    const name = isDeclared(update) ? update.name : update;
    const steps = this.#steps;
    const { updates } = this.extras;
    for (;;) {
      const n = (updates.get(name) ?? 0) + 1;
      updates.set(name, n);
      const of = n === 1 ? name : `${name}#${n}`;
      const taken = await steps.waitFor(updateSignal(of), { ...options, signal: updateSignal(name) });
      const { id, data: stored } = taken as { readonly id: string; readonly data: unknown };
      let isAnswered = false;
      const answer = (given: UpdateAnswer): Promise<void> => {
        if (isAnswered) throw brandFatal(new Error(`the update "${name}" has been answered already`));
        isAnswered = true;
        return steps.answer(`~answer:${of}`, id, given);
      };
      const refuse = (reason: string | Error): Promise<void> => answer({ error: refusalOf(reason) });
      const wait = async (): Promise<unknown> => stored;
      const parsing = this.shared.code?.parsingWait?.(wait) ?? wait;
      try {
        const data = await parsing(name, { schema });
        return { id, data, answer: (value) => answer({ value: (value ?? null) as Json }), refuse };
      } catch (thrown) {
        if ((thrown as { code?: unknown } | null)?.code !== SIGNAL_REFUSED) throw thrown;
        await answer({ error: { ...refusalOf(thrown as Error), code: "invalid_input" } });
      }
    }
  }

  get map(): ProcessContext["map"] {
    return ((
      name: string,
      items: Iterable<unknown> | AsyncIterable<unknown>,
      run: ((item: unknown, context: MapContext) => unknown) | MapHandler,
      options?: { readonly concurrency?: number },
    ) =>
      isHandler(run)
        ? this.#steps.mapTo(name, items, { handler: run, ...options })
        : this.#steps.map(name, items as readonly unknown[], run, options)) as ProcessContext["map"];
  }

  get run(): ProcessContext["run"] {
    return (workflow, input, options) => {
      const name = options?.name ?? nameOf(workflow);
      return this.#steps.run(name, () => this.#prepare(workflow, input));
    };
  }

  get start(): ProcessContext["start"] {
    return async (workflow, input, options) => {
      const name = options?.name ?? nameOf(workflow);
      return { id: await this.#steps.start(name, () => this.#prepare(workflow, input)) };
    };
  }

  /** Checks the input of a child execution, and returns it in its stored form. */
  async #prepare(workflow: ChildWorkflow, input: unknown = null): Promise<ChildStart> {
    const check = this.shared.code?.checkingInput;
    const text =
      check === undefined
        ? toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "input" })
        : await check(workflow, input);
    if (isRejection(text)) throw brandFatal(new Error(`${nameOf(workflow)}: ${text.message}`));
    return { workflow: nameOf(workflow), input: text };
  }

  get continueAs(): ProcessContext["continueAs"] {
    return (input) => this.#continueAs(input);
  }

  /** Ends the attempt with a receipt that contains the input of the next execution, which continues this one. The promise never settles. */
  async #continueAs(input: unknown): Promise<never> {
    const { lacks } = this.shared.around;
    if (lacks !== null) throw brandFatal(new Error(lacks));
    const check = this.shared.code?.checkingOwnInput;
    const text =
      check === undefined
        ? toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "input" })
        : await check(input);
    if (isRejection(text)) throw brandFatal(new Error(`continueAs: ${text.message}`));
    this.endWith({ status: "done", payload: "null", continueAs: text }, new Error("the execution continues"));
    return new Promise<never>(() => {});
  }

  get random(): ProcessContext["random"] {
    return (name) => this.#derived.random(name);
  }

  get uuid(): ProcessContext["uuid"] {
    return (name) => this.#derived.uuid(name);
  }

  /** Returns the journaled time. At a worker without steps, it returns the time of the clock. */
  override get now(): ProcessContext["now"] {
    return this.shared.around.lacks === null ? (name) => this.#steps.now(name) : super.now;
  }

  get #derived(): DerivedValues {
    this.extras.derived ??= new DerivedValues(this.idempotencyKey);
    return this.extras.derived;
  }

  get #steps(): JournaledSteps {
    const { lacks } = this.shared.around;
    if (lacks !== null) throw brandFatal(new Error(lacks));
    this.extras.steps ??= new JournaledSteps({
      grant: this.shared.grant,
      item: this.item,
      clock: this.shared.around.clock,
      results: this.shared.around.results,
      signal: () => this.signal,
      redact: (error) => {
        const { secrets } = this.shared.around;
        return secrets.isEmpty ? error : secrets.redactJson(error);
      },
      isOver: () => this.ending !== null,
      ask: (report) => this.ask(report),
      send: (report) => {
        this.flushLog();
        this.shared.around.reporter.add(report);
      },
      suspend: (waits) =>
        this.endWith(
          { status: "suspended", payload: "null", ...waitsIn(waits) },
          new Error("the task waits"),
        ),
      lose: () => this.endWith(handedBack("lost"), new Error("lease lost")),
    });
    return this.extras.steps;
  }
}

/** The context of several tasks in one call of `processBatch`. Its logs belong to the first task. */
export class GroupContext extends AttemptContext implements BatchContext {
  readonly tasks: readonly unknown[];
  readonly #items: readonly GrantItem[];

  constructor(shared: Shared, items: readonly GrantItem[]) {
    super(shared, items[0] as GrantItem);
    this.#items = items;
    this.tasks = items.map((item) => taskOf(shared, item));
  }

  get attempts(): readonly BatchAttempt[] {
    const { grant } = this.shared;
    return this.#items.map((item) => ({
      number: item.number,
      attempt: item.attempt,
      attemptId: idOf(grant, item),
      idempotencyKey: idempotencyKey(grant, item.number),
    }));
  }
}

function isDeclared(given: string | readonly string[] | Declared | undefined): given is Declared {
  return typeof given === "object" && given !== null && "name" in given;
}

/** Makes the error with which code refuses an update. */
function refusalOf(reason: string | Error): RefusedUpdate {
  if (typeof reason === "string") return { name: "UpdateRefused", message: reason };
  const { code } = reason as { code?: unknown };
  return { name: reason.name, message: reason.message, ...(typeof code === "string" ? { code } : {}) };
}

/** Returns the name of a wait for several signals that has no name of its own. */
function nameOfWait(signals: readonly string[]): string {
  const name = signals.join("|");
  if (signals.length < 2 || whyNoName(name) === null || signals.some((one) => whyNoName(one) !== null))
    return name;
  throw brandFatal(
    new Error(
      'waitFor: these signals are too long for a name: give one, as in waitFor("answer", { signal: [...] })',
    ),
  );
}

/** Returns the name of the workflow that the code starts. */
function nameOf(workflow: ChildWorkflow): string {
  const name: unknown = typeof workflow === "string" ? workflow : workflow?.name;
  if (typeof name === "string") return name;
  throw brandFatal(new Error("run and start need a workflow object or the name of a workflow"));
}

/** Returns the waits of a suspended attempt, in the form that older servers can read if that is possible. */
function waitsIn(waits: readonly TaskWait[]): Pick<Outcome, "wait" | "waits"> {
  const [wait] = waits;
  const isPlain = [wait?.anyOf, wait?.match, wait?.retry, wait?.child].every((field) => field === undefined);
  return waits.length === 1 && wait !== undefined && isPlain ? { wait } : { waits };
}

function idOf(grant: Grant, item: GrantItem): string {
  return encodeAttempt(reportedAttempt(grant, item));
}

function taskOf({ code, input }: Shared, { task }: GrantItem): unknown {
  return code?.taskIsInput === true ? input : (JSON.parse(task ?? "null") as unknown);
}

export class ListingContext extends AttemptContext implements EnumerateContext {
  get mapItems(): EnumerateContext["mapItems"] {
    const { grant, around } = this.shared;
    return async function* () {
      const { results } = around;
      if (results.items === undefined)
        throw brandFatal(new Error(around.lacks ?? "this worker cannot read the items of a map"));
      for (let page = 0; ; page++) {
        const items = await results.items(grant.execution, page);
        if (items === null) return;
        yield* JSON.parse(items) as readonly unknown[];
      }
    };
  }

  /** Whether the code has read `resume`. If it has, the code continues after the journaled items. */
  resumed = false;

  get resume(): EnumerateContext["resume"] {
    const { resume } = this.shared.grant;
    if (resume === null) return undefined;
    // Reading a member of `resume` counts as a use; reading `resume` alone does not.
    const read = <T>(value: T): T => {
      this.resumed = true;
      return value;
    };
    return {
      get count() {
        return read(resume.count);
      },
      get last() {
        return read(JSON.parse(resume.last) as unknown);
      },
    };
  }
}
