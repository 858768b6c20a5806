/** Rondo in this process: an engine over a store, and a worker that runs the workflows served here. `openRondo` returns it. */
import { startExecution } from "../engine/engine-port.ts";
import { inspectNewest } from "../engine/newest.ts";
import { SignalStarter, signalMessage, signalState } from "../engine/signal-with-start.ts";
import { compareVersions, storeDefinition } from "../engine/store-definition.ts";
import { type IfExists, startIfExists } from "../engine/successors.ts";
import { LIMITS } from "../kernel/definition/definition.ts";
import { exactly } from "../kernel/definition/names.ts";
import { parseDefinition } from "../kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../kernel/definition/plan.ts";
import { usableDefinition } from "../kernel/definition/read-definition.ts";
import { splitVersionedName, versionedName } from "../kernel/definition/version-name.ts";
import { Execution } from "../kernel/execution.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import { replay } from "../kernel/journal/replay.ts";
import { type ExecutionView, viewExecution } from "../kernel/view.ts";
import {
  type CheckedStart,
  checkCloseOptions,
  checkList,
  checkSignalStart,
  checkStart,
} from "../protocol/check-request.ts";
import type { SentEvent } from "../protocol/sent-event.ts";
import { SCRIPT_USE, type Serves } from "../protocol/work.ts";
import { allPages } from "../sdk/all-pages.ts";
import { checkId, checkMiddleware, checkWorkflow, referenceTo } from "../sdk/check.ts";
import type { ContextExtensions } from "../sdk/context.ts";
import { plainSignal } from "../sdk/declared.ts";
import type { EventToSend } from "../sdk/event.ts";
import type {
  CloseOptions,
  ExecutionHandle,
  ExecutionPage,
  ListOptions,
  LogEntry,
  LogsOptions,
  ResultOptions,
  RondoClient,
  SignalledExecution,
  SignalWithStartOptions,
  StartItem,
  StartOptions,
  StartOutcome,
  StartSignal,
} from "../sdk/handle.ts";
import type { Operations } from "../sdk/operations.ts";
import { operationsOver } from "../sdk/operations-over.ts";
import { validateInput } from "../sdk/validate-input.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "../sdk/workflow.ts";
import { defined } from "../std/defined.ts";
import { newExecutionId, newMessageId } from "../std/id.ts";
import { toStoredText } from "../std/json.ts";
import { activeTrace } from "../std/open-telemetry.ts";
import { isRejection, type Rejection, RondoError, reject, unwrap } from "../std/rejection.ts";
import { listOrSearch } from "../store/search-heads.ts";
import { StoreFault } from "../store/store.ts";
import { EventSender, type TriggeredWorkflow } from "../triggers/send-event.ts";
import { loggedBy } from "../worker/attempt-place.ts";
import {
  type HandlerCode,
  type HostedTopic,
  type HostedWorkflow,
  type Middleware,
  withChildren,
} from "../worker/handler-code.ts";
import { Worker } from "../worker/worker.ts";
import { resultsOf } from "./journal-reader.ts";
import { LocalHandle, type LocalParts } from "./local-handle.ts";
import type { AttachedApi, RondoParts } from "./rondo-parts.ts";

interface Served {
  readonly workflow: HostedWorkflow;
  readonly plan: Plan;
}

/** An attempt that runs longer than this is reported to the engine as started. Shorter ones need not be. */
const STARTS_AFTER_MS = 50;

/**
 * The most starts of one `startMany` that are under way at a time. Over PostgreSQL, two commits are under way while the engine steps the
 * executions of a third one (decision 172). More starts would only use memory, which the garbage collector copies.
 */
const STARTS_AT_A_TIME = 1_024;

/**
 * Rondo in this process, as `openRondo` gives it: an engine over a store, and a worker that runs the workflows
 * that are served.
 */
export class Rondo implements RondoClient {
  readonly #options: RondoParts;
  readonly #worker: Worker;
  readonly #workerId: string;
  /** The served workflows by name, and by name and version. */
  readonly #served = new Map<string, Served>();
  /** All workflows that this process has ever served, by wire name and version. Executions of older definitions continue with them. */
  readonly #serves = new Map<string, Serves>();
  readonly #stored = new Map<string, Promise<void>>();
  readonly #isStored = new Set<string>();
  /** References to workflows that were passed to `serve` directly. */
  readonly #named = new Set<string>();
  readonly #middleware: Middleware[];
  #isClosed = false;
  #api: Promise<AttachedApi> | null = null;
  #url: string | null = null;

  readonly schedules: Operations["schedules"];
  readonly deadLetters: Operations["deadLetters"];
  readonly workers: Operations["workers"];
  readonly versions: Operations["versions"];
  readonly bulk: Operations["bulk"];
  readonly tokenFor: Operations["tokenFor"];

  readonly #parts: LocalParts;
  readonly #signals: SignalStarter;
  readonly #events: EventSender;

  /** @internal */
  constructor(options: RondoParts) {
    this.#options = options;
    this.#signals = new SignalStarter(options);
    this.#middleware = options.middleware ?? [];
    const { engine, store, clock, random } = options;
    this.#parts = { engine, store, clock, random, checkSignal: (...signal) => this.#checkSignal(...signal) };
    this.#events = new EventSender({
      ...{ engine, store, clock, random },
      newest: (workflow) => this.#triggered(workflow),
    });
    // The worker's name is unique for each process, so that a late report of an earlier process is not taken for one of this worker.
    const [own] = engine.info.owned;
    this.#workerId = `local~${own?.epoch ?? newExecutionId(clock.now(), random).slice(3)}`;
    this.#worker = new Worker({
      clock: options.clock,
      results: resultsOf(options.store),
      concurrency: Math.max(1, Math.floor(options.capacity / 2)),
      startsAfterMs: STARTS_AFTER_MS,
      send: (reports) => options.engine.report(this.#workerId, reports),
      log: (grant, item, logged) => options.onLog(loggedBy(grant, item, logged)),
      onBug: options.onBug,
      scripts: options.scripts,
      secrets: options.secrets,
      middleware: this.#middleware,
    });
    const operations = operationsOver({
      api: { json: async (path, request) => (await this.api()).calls.json(path, request) },
      register: (workflow) =>
        workflow === null ? Promise.all(this.#stored.values()) : this.#store(planOf(workflow)),
      newId: () => newMessageId(clock.now(), random),
    });
    this.schedules = operations.schedules;
    this.deadLetters = operations.deadLetters;
    this.workers = operations.workers;
    this.versions = (workflow) => operations.versions(workflow);
    this.bulk = (...given) => operations.bulk(...given);
    this.tokenFor = (...given) => operations.tokenFor(...given);
  }

  /** The address of the HTTP API and the dashboard of this process; null without `server`. */
  get url(): string | null {
    return this.#url;
  }

  /** @internal The API of this process, opened on first use. */
  api(): Promise<AttachedApi> {
    const { openApi } = this.#options;
    if (this.#isClosed || (this.#api === null && openApi === undefined))
      return Promise.reject(new RondoError(reject("not_ready", "Rondo is closed")));
    this.#api ??= (openApi as NonNullable<typeof openApi>)(this).catch((thrown: unknown) => {
      this.#api = null;
      throw thrown;
    });
    return this.#api;
  }

  /** @internal Uses the API of a server in this process from now on. */
  attach(api: AttachedApi): void {
    this.#api = Promise.resolve(api);
    this.#url = api.url;
  }

  /**
   * Runs the handlers of these workflows, and of the workflows that they start as children, in this process; for topics, runs their code.
   * May be called again to serve more.
   *
   * @throws RondoError if a definition is wrong or the name of a topic is reserved
   * @example rondo.serve(nightly, topic("EMAIL_CMD", send));
   */
  serve(...parts: readonly (HostedWorkflow | HostedTopic)[]): this {
    const workflows: HostedWorkflow[] = [];
    for (const part of parts) {
      if (isTopic(part)) continue;
      checkWorkflow(part);
      workflows.push(part);
    }
    for (const topic of parts.filter(isTopic)) {
      const refusal = this.#options.reserved?.(topic.topic) ?? null;
      if (refusal !== null) throw new RondoError(refusal);
    }
    for (const topic of parts.filter(isTopic)) {
      for (const code of topic.handlers) this.#host(topic.name, code);
      this.#options.elsewhere?.host([topic]);
    }
    for (const workflow of workflows) this.#named.add(referenceTo(workflow));
    for (const workflow of withChildren(workflows)) {
      // A workflow that the user passed to `serve` is not replaced by a child of the same name.
      if (this.#named.has(referenceTo(workflow)) && !workflows.includes(workflow)) continue;
      const plan = planOf(workflow);
      this.#note({ workflow, plan });
      for (const code of workflow.handlers) this.#host(workflow.name, code);
      if (this.#options.scripts !== undefined && hasScript(plan)) {
        this.#serves.set(SCRIPT_USE, { use: SCRIPT_USE });
        this.#options.elsewhere?.hostScripts();
      }
      if (workflow.handlers.length > 0) this.#options.elsewhere?.host([workflow]);
      // If the store fails now, the error is ignored, because a later start stores the definition again.
      this.#store(plan).catch((fault: unknown) => {
        if (!(fault instanceof StoreFault)) this.#options.onBug(fault);
      });
    }
    this.#options.engine.join(this.#workerId, this.#worker, {
      serves: [...this.#serves.values()],
      capacity: this.#options.capacity,
      local: true,
    });
    return this;
  }

  /**
   * Runs middleware around all code of the served workflows: enumerations, tasks, compensations, `next`, `returns` and steps. The first
   * one is the outermost. It applies to calls that begin after this one.
   *
   * @throws RondoError with the code `invalid_input` if it is not a function
   * @example rondo.use(async ({ workflow, kind, log }, next) => { const from = performance.now(); try { return await next({ tenant:
   * "acme" }); } finally { log.debug({ workflow, kind, ms: performance.now() - from }); } });
   */
  use(...middleware: readonly Middleware<Partial<ContextExtensions>>[]): this {
    checkMiddleware(middleware);
    this.#middleware.push(...middleware);
    return this;
  }

  start<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options: StartOptions = {},
  ): Promise<ExecutionHandle<WorkflowOutput<W>>> {
    return this.#start<WorkflowOutput<W>>(workflow, input, options, false);
  }

  /**
   * Starts are sent together, so that they share commits. If there are many, half of those that are under way at a time are sent a turn
   * later, so that the first commit is written meanwhile.
   */
  async startMany<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    starts: readonly StartItem<WorkflowInput<NoInfer<W>>>[],
  ): Promise<readonly StartOutcome<WorkflowOutput<W>>[]> {
    const outcomes: StartOutcome<WorkflowOutput<W>>[] = new Array(starts.length);
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < starts.length) {
        const i = next++;
        const { input, ...options } = starts[i] as StartItem<WorkflowInput<W>>;
        try {
          const execution = await this.#start<WorkflowOutput<W>>(workflow, input, options, false);
          outcomes[i] = { execution, existed: execution.existed, error: null };
        } catch (error) {
          // If the workflow does not exist, that is true for all starts, so the error is thrown.
          if (!(error instanceof RondoError) || error.code === "not_found") {
            next = starts.length;
            throw error;
          }
          outcomes[i] = { execution: null, existed: false, error };
        }
      }
    };
    const lanes = (): Promise<unknown> =>
      Promise.all(Array.from({ length: Math.min(STARTS_AT_A_TIME / 2, starts.length - next) }, lane));
    const first = lanes();
    const later = new Promise<void>((resolve) => this.#options.clock.soon(resolve)).then(lanes);
    await Promise.all([first, later]);
    return outcomes;
  }

  async run<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options: StartOptions & ResultOptions = {},
  ): Promise<WorkflowOutput<W>> {
    const { signal, timeout, ...start } = options;
    const handle = await this.#start<WorkflowOutput<W>>(workflow, input, start, true);
    return signal === undefined && timeout === undefined
      ? handle.result()
      : handle.result(defined({ signal, timeout }));
  }

  async signalWithStart<W extends AnyWorkflow = AnyWorkflow, Data = unknown>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    signal: StartSignal<Data>,
    options: SignalWithStartOptions,
  ): Promise<SignalledExecution<WorkflowOutput<W>>> {
    const trace = activeTrace();
    const checked = unwrap(checkSignalStart(options));
    const message = unwrap(signalMessage(this.#parts, await plainSignal(signal)));
    const { plan, text } = unwrap(await this.#prepare(workflow, input));
    const served = this.#servedBy(plan.hash);
    const unfit = served && (await this.#refusalOf(served.workflow, message.signal, message.data));
    if (unfit !== null) throw new RondoError(unfit);
    await this.#admit(plan, checked.project);
    const given = { plan, input: text, signal: message };
    const { id, reply } = await this.#signals.send(given, { ...checked, trace });
    const state = unwrap(signalState(reply.answer));
    return { execution: this.execution<W>(id), started: !reply.existed, signal: state };
  }

  async send(event: EventToSend): Promise<SentEvent> {
    // Waits until the definitions of workflows that were just served are stored, so that their triggers count.
    await Promise.all(this.#stored.values());
    return unwrap(await this.#events.send(event));
  }

  execution<W extends AnyWorkflow = AnyWorkflow>(id: string): ExecutionHandle<WorkflowOutput<W>> {
    checkId(id);
    return new LocalHandle<WorkflowOutput<W>>(id, this.#parts);
  }

  async list(options: ListOptions = {}): Promise<ExecutionPage> {
    const { heads, next } = await listOrSearch(this.#options.store, unwrap(checkList(options)));
    // The list shows each execution by its own id, even if that id also refers to a later execution.
    const data = await Promise.all(heads.map(({ id }) => this.execution(exactly(id)).describe()));
    return { data, next: next === null ? null : String(next) };
  }

  listAll(options?: Omit<ListOptions, "cursor">): AsyncIterable<ExecutionView> {
    return allPages((page) => this.list({ ...options, ...page }));
  }

  logs(id: string, options?: LogsOptions): AsyncIterable<LogEntry> {
    return this.execution(id).logs(options);
  }

  async stateAt(id: string, seq: number): Promise<ExecutionView> {
    const { store, engine } = this.#options;
    const now = unwrap(await inspectNewest((one) => engine.inspect(one), id)).view;
    if (!Number.isSafeInteger(seq) || seq < 1 || seq > now.revision) {
      throw new RondoError(
        reject(
          "invalid_input",
          `event ${seq} does not exist: execution ${id} has the events 1 to ${now.revision}`,
        ),
      );
    }
    const [first] = await store.readJournal({ execution: now.id, from: 1, to: 1, rowsMax: 1 });
    const created = first === undefined ? undefined : decodeEntry(first)[0]?.event;
    const hash = created?.kind === "created" ? created.hash : now.workflowHash;
    const stored = await store.getDefinition({ hash });
    const definition = unwrap(
      stored === null
        ? reject("not_ready", "the definition of the execution is not in the store")
        : usableDefinition(stored),
    );
    const execution = new Execution(now.id, compilePlan(definition));
    while (execution.seq < seq) {
      const entries = await store.readJournal({
        execution: now.id,
        from: execution.seq + 1,
        to: seq,
        rowsMax: 64,
        charsMax: 1_048_576,
      });
      const before = execution.seq;
      replay(execution, entries, { to: seq });
      if (execution.seq === before)
        throw new RondoError(
          reject(
            "not_found",
            `event ${seq} of execution ${id} was deleted when the journal of its gate was compacted`,
          ),
        );
    }
    return viewExecution(execution, execution.now);
  }

  async close(options: CloseOptions = {}): Promise<void> {
    checkCloseOptions(options);
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { graceMs = 10_000 } = options;
    // If the API could not be opened, the caller that opened it got the error.
    await this.#api?.then(
      (api) => api.shut({ graceMs }),
      () => {},
    );
    await this.#options.onClosing?.();
    this.#options.engine.quiesce();
    await Promise.all([this.#worker.stop(graceMs), this.#options.elsewhere?.stop(graceMs)]);
    await this.#options.engine.close();
    await this.#options.onClosed?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Starts an execution. Variables of this function stay in memory until the start is durable, and many starts may wait at a time, so
   * there are few of them.
   */
  async #start<Output>(
    workflow: AnyWorkflow | string,
    input: unknown,
    options: StartOptions,
    waits: boolean,
  ): Promise<LocalHandle<Output>> {
    const trace = activeTrace();
    // The input is prepared without an await if possible, so that the start is sent in the same turn of the event loop as the call.
    const prepared = unwrap(this.#prepareNow(workflow, input) ?? (await this.#prepare(workflow, input)));
    // `trace` is the caller's span, read before the first await. It becomes the parent of the execution's spans.
    const given = unwrap(checkStart(options));
    const checked = trace === null ? given : { ...given, trace };
    const { ifExists } = checked;
    if (ifExists !== undefined) return this.#startIfExists<Output>(prepared, { ...checked, ifExists });
    const start = startExecution(this.#options, prepared.plan, prepared.text, checked);
    const admitted = this.#admit(prepared.plan, checked.project);
    if (admitted !== null) await admitted;
    const handle = new LocalHandle<Output>(start.id, this.#parts);
    if (waits) handle.watchEnd();
    const reply = await start.send();
    if (isRejection(reply.answer)) {
      await handle[Symbol.asyncDispose]();
      throw new RondoError(reply.answer);
    }
    if (reply.existed && waits) return new LocalHandle<Output>(handle.id, this.#parts);
    handle.existed = reply.existed;
    return handle;
  }

  async #startIfExists<Output>(
    { plan, text }: { plan: Plan; text: string },
    checked: CheckedStart & { readonly ifExists: IfExists },
  ): Promise<LocalHandle<Output>> {
    await this.#admit(plan, checked.project);
    const { id, reply } = await startIfExists(this.#options, { plan, input: text }, checked);
    unwrap(reply.answer);
    const handle = new LocalHandle<Output>(id, this.#parts);
    handle.existed = reply.existed;
    return handle;
  }

  /**
   * Checks the topics of a start and stores its definition. Returns null if nothing has to be awaited. The promise rejects if the start
   * is refused.
   */
  #admit(plan: Plan, project: string): Promise<void> | null {
    const { commands, hash } = plan;
    return commands.length === 0 && this.#isStored.has(hash) ? null : this.#admitSlowly(plan, project);
  }

  async #admitSlowly(plan: Plan, project: string): Promise<void> {
    const { commands, hash } = plan;
    const refusal = commands.length === 0 ? null : await this.#options.admit?.(project, commands);
    if (refusal !== null && refusal !== undefined) throw new RondoError(refusal);
    if (!this.#isStored.has(hash)) await this.#store(plan);
  }

  /**
   * Returns the plan and the stored form of the input. Returns null if that needs an await: the workflow is not served here, or has an
   * input schema.
   */
  #prepareNow(
    workflow: AnyWorkflow | string,
    input: unknown,
  ): { plan: Plan; text: string } | Rejection | null {
    const known = this.#served.get(referenceTo(workflow));
    const isKnown = known !== undefined && (typeof workflow === "string" || known.workflow === workflow);
    if (!isKnown || (known.workflow as AnyWorkflow).inputSchema !== undefined) return null;
    const text = toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "input" });
    return isRejection(text) ? text : { plan: known.plan, text };
  }

  async #prepare(
    workflow: AnyWorkflow | string,
    input: unknown,
  ): Promise<{ plan: Plan; text: string } | Rejection> {
    if (typeof workflow !== "string") checkWorkflow(workflow);
    if (typeof workflow !== "string") {
      const known = this.#served.get(referenceTo(workflow));
      const plan = known?.workflow === workflow ? known.plan : planOf(workflow);
      const text = await validateInput(workflow, input);
      return isRejection(text) ? text : { plan, text };
    }
    const served = this.#served.get(workflow);
    if (served !== undefined) return this.#prepare(served.workflow, input);
    const found = await this.#options.store.getDefinition({ newestOf: workflow });
    const plan = found === null ? null : compilePlan(unwrap(usableDefinition(found)));
    // Executions whose commands are in their input are started by submissions only.
    if (plan === null || plan.definition.commands !== undefined) {
      const { name, version } = splitVersionedName(workflow);
      const what =
        version === null
          ? `there is no workflow "${name}"`
          : `the workflow "${name}" has no version ${version}`;
      return reject("not_found", what, {
        hint: "serve the workflow in this process, or start it by its object",
      });
    }
    const text = await validateInput({ inputSchema: undefined }, input);
    return isRejection(text) ? text : { plan, text };
  }

  /** Returns the newest definition of a workflow. If this process serves the workflow, its check of the input is returned too. */
  async #triggered(workflow: string): Promise<TriggeredWorkflow | Rejection | null> {
    const found = await this.#options.store.getDefinition({ newestOf: workflow });
    if (found === null) return null;
    const own = this.#servedBy(found.hash);
    const usable = own?.plan.definition ?? usableDefinition(found);
    if (isRejection(usable)) return usable;
    const plan = own?.plan ?? compilePlan(usable);
    const typed: AnyWorkflow | undefined = own?.workflow;
    return { plan, check: async (input) => validateInput(typed ?? { inputSchema: undefined }, input) };
  }

  /** Records a served workflow by its version and by its name. If there are several versions, the name refers to the highest. */
  #note(served: Served): void {
    const { name, version } = served.plan.definition;
    if (version !== undefined) this.#served.set(versionedName(name, version), served);
    const known = this.#served.get(name)?.plan.definition.version;
    if (version === undefined || compareVersions(version, known) >= 0) this.#served.set(name, served);
  }

  #host(workflow: string, code: HandlerCode): void {
    const { use, version, enumerate } = code;
    const key = `${use} ${version ?? ""}`;
    const known = this.#serves.get(key);
    const enumerates = enumerate !== undefined;
    // Two workflows may have the same name, and one may enumerate tasks while the other only processes them.
    const isBoth = known !== undefined && known.enumerates !== enumerates;
    this.#serves.set(key, {
      use,
      ...(version === undefined ? {} : { version }),
      ...(isBoth ? {} : { enumerates }),
    });
    this.#worker.host(workflow, code);
  }

  /**
   * Checks the data of a signal against the schema of its wait in the newest execution of the id. If this process does not know the
   * workflow, nothing is checked.
   */
  async #checkSignal(id: string, signal: string, data: string): Promise<Rejection | null> {
    const isChecked = [...this.#served.values()].some(({ workflow }) =>
      workflow.handlers.some(({ signal: wait }) => wait?.name === signal),
    );
    if (!isChecked) return null;
    const found = await inspectNewest((one) => this.#options.engine.inspect(one), id);
    if (isRejection(found)) return found;
    const served = this.#servedBy(found.view.workflowHash) ?? this.#served.get(found.view.workflow);
    return served === undefined ? null : this.#refusalOf(served.workflow, signal, data);
  }

  /** Returns the served workflow with this definition; null if there is none. */
  #servedBy(hash: string): Served | null {
    for (const served of this.#served.values()) if (served.plan.hash === hash) return served;
    return null;
  }

  /** Returns why no wait of a workflow accepts the data of a signal; null if a wait accepts it, or if no wait has a schema. */
  async #refusalOf(workflow: HostedWorkflow, signal: string, data: string): Promise<Rejection | null> {
    let refusal: Rejection | null = null;
    for (const { signal: wait } of workflow.handlers) {
      if (wait?.name !== signal) continue;
      refusal = await wait.check(JSON.parse(data));
      if (refusal === null) return null;
    }
    return refusal;
  }

  /** Stores the definition of a plan, unless this process has stored it before. */
  #store(plan: Plan): Promise<void> {
    let stored = this.#stored.get(plan.hash);
    if (stored === undefined) {
      stored = storeDefinition(this.#options.store, plan).then(
        () => {
          this.#isStored.add(plan.hash);
          this.#options.engine.definitionStored(plan.definition.name);
        },
        (fault: unknown) => {
          this.#stored.delete(plan.hash);
          throw fault;
        },
      );
      this.#stored.set(plan.hash, stored);
    }
    return stored;
  }
}

const plans = new WeakMap<HostedWorkflow, Plan>();

/** Returns the plan of a workflow. Throws if its definition is wrong. */
export function planOf(workflow: HostedWorkflow): Plan {
  const known = plans.get(workflow);
  if (known !== undefined) return known;
  const plan = compilePlan(unwrap(parseDefinition(workflow.definition)));
  plans.set(workflow, plan);
  return plan;
}

function hasScript({ definition }: Plan): boolean {
  return definition.phases.some(({ handlers }) =>
    Object.values(handlers).some(({ script }) => script !== undefined),
  );
}

function isTopic(part: unknown): part is HostedTopic {
  return typeof (part as Partial<HostedTopic> | null)?.topic === "string";
}
