/** `rondo/client`: a client of a Rondo server with the same interface as Rondo in this process. Runs in browsers too. */
import type { ExecutionView } from "../kernel/view.ts";
import { checkOptions } from "../protocol/check-options.ts";
import { checkCloseOptions, checkList, checkSignalStart, checkStart } from "../protocol/check-request.ts";
import type {
  ProjectDocument,
  ProjectSubmission,
  WorkflowDocument,
  WorkflowSubmission,
} from "../protocol/command-document.ts";
import type { SentEvent } from "../protocol/sent-event.ts";
import { allPages } from "../sdk/all-pages.ts";
import { checkId, checkWorkflow, referenceTo } from "../sdk/check.ts";
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
import { listQuery, operationsOver } from "../sdk/operations-over.ts";
import { validateInput } from "../sdk/validate-input.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "../sdk/workflow.ts";
import type { SignalledStart } from "../server/schemas/execution.ts";
import { systemClock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { newExecutionId, newMessageId } from "../std/id.ts";
import { systemRandom } from "../std/random.ts";
import { isRejection, RondoError, reject, unwrap } from "../std/rejection.ts";
import {
  type CommandClient,
  type CommandsOptions,
  type CommandsPage,
  commandClient,
  type SubmitOptions,
} from "./command-client.ts";
import { addressesOf, type ConnectOptions } from "./connect-options.ts";
import { defaultFetch } from "./node-fetch.ts";
import { OpenCalls } from "./open-calls.ts";
import { closedEarly, RemoteHandle, type RemoteParts } from "./remote-handle.ts";
import { Requester, type RequestOptions } from "./requester.ts";
import {
  SERVE,
  type ServedCode,
  type ServedWorker,
  type ServeHere,
  type ServeOptions,
} from "./serve-options.ts";
import { sendStarts, startText } from "./start-many.ts";

/** The client of a Rondo server that `connect` returns. */
export interface RemoteClient extends RondoClient, CommandClient {
  /**
   * Runs the handlers of workflows, and the code of topics, in this process, for the tasks of the server. The definitions are
   * registered first. Resolves when the server has accepted the worker. Needs Node, Bun or Deno; browsers run no tasks.
   *
   * @throws RondoError if an option is wrong, or the server refuses the definitions or the worker
   * @example
   * await using worker = await connect({ url: "http://127.0.0.1:7777", token }).serve(nightly, { capacity: 20 });
   * await worker.closed;
   */
  serve(code: ServedCode | readonly ServedCode[], options?: ServeOptions): Promise<ServedWorker>;
}

/**
 * Connects to a server. The first request is sent when the client is used. Runs in browsers too.
 *
 * @throws RondoError with the code `invalid_input` if an option is wrong
 * @example
 * const client = connect({ url: "http://127.0.0.1:7777" });
 * const output = await client.run<typeof nightly>("nightly", { bucket: "b" });
 */
export function connect(options: ConnectOptions): RemoteClient {
  return new RemoteRondo(options);
}

const RECONNECT_MS = 60_000;

/** The client that `connect` returns. */
export class RemoteRondo implements RemoteClient {
  readonly requester: Requester;
  readonly #parts: RemoteParts;
  readonly #commands: CommandClient;
  readonly #calls = new OpenCalls();
  readonly #token: string | null;
  readonly #serveHere: ServeHere | null;
  readonly #workers = new Set<ServedWorker>();
  readonly schedules: Operations["schedules"];
  readonly deadLetters: Operations["deadLetters"];
  readonly workers: Operations["workers"];
  readonly versions: Operations["versions"];
  readonly bulk: Operations["bulk"];
  readonly tokenFor: Operations["tokenFor"];
  /** Workflows whose definition this client has sent to the server. */
  readonly #registered = new WeakMap<AnyWorkflow, Promise<unknown>>();

  constructor(options: ConnectOptions, serveHere: ServeHere | null = null) {
    this.#serveHere = serveHere;
    this.requester = new Requester({
      urls: addressesOf(options),
      token: options.token ?? null,
      fetch: options.fetch ?? defaultFetch(),
    });
    this.#token = options.token ?? null;
    this.#parts = {
      requester: this.requester,
      clock: systemClock({ hold: true }),
      random: systemRandom,
      reconnectMs: options.reconnectMs ?? RECONNECT_MS,
      calls: this.#calls,
    };
    this.#commands = commandClient(this.#parts);
    const operations = operationsOver({
      api: this.requester,
      register: async (workflow) => (workflow === null ? null : this.register(workflow)),
      newId: () => newMessageId(this.#parts.clock.now(), this.#parts.random),
    });
    this.schedules = operations.schedules;
    this.deadLetters = operations.deadLetters;
    this.workers = operations.workers;
    this.versions = (workflow) => operations.versions(workflow);
    this.bulk = (...given) => operations.bulk(...given);
    this.tokenFor = (...given) => operations.tokenFor(...given);
  }

  async serve(code: ServedCode | readonly ServedCode[], options: ServeOptions = {}): Promise<ServedWorker> {
    const refused = checkOptions(options, SERVE);
    if (refused !== null) throw new RondoError(refused);
    const all = [code].flat();
    for (const part of all) if (!("topic" in part)) checkWorkflow(part);
    if (this.#serveHere === null)
      throw new RondoError(
        reject(
          "not_ready",
          "serve: this build of rondo/client is for browsers, and browsers do not run tasks",
          {
            hint: "run the worker in Node, Bun or Deno",
          },
        ),
      );
    const worker = await this.#serveHere({ urls: this.requester.urls, token: this.#token }, all, options);
    this.#workers.add(worker);
    void worker.closed.then(() => this.#workers.delete(worker));
    return worker;
  }

  async start<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options: StartOptions = {},
  ): Promise<ExecutionHandle<WorkflowOutput<W>>> {
    const request = await this.#startRequest(workflow, input, options);
    const view = await this.requester.json<ExecutionView>("/v1/executions", request);
    return this.execution<W>(view.id);
  }

  /** Makes the request of a start. The id is generated before the first try, so that a repeated request finds the same execution. */
  async #startRequest(
    workflow: AnyWorkflow | string,
    input: unknown,
    options: StartOptions,
  ): Promise<RequestOptions & { readonly body: { readonly id: string } }> {
    const { clock, random } = this.#parts;
    const start = await this.#startOf(workflow, input, options);
    const body = { ...start, id: options.id ?? newExecutionId(clock.now(), random) };
    // With other policies a repeated request is not safe: it could find the execution of the first request, and fail or start another
    // one.
    const isRepeatable = options.ifExists === undefined || options.ifExists === "return";
    return { method: "POST", body, isRepeatable };
  }

  async signalWithStart<W extends AnyWorkflow = AnyWorkflow, Data = unknown>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    signal: StartSignal<Data>,
    { ifExists, ...options }: SignalWithStartOptions,
  ): Promise<SignalledExecution<WorkflowOutput<W>>> {
    const { id } = unwrap(checkSignalStart({ ...options, ...defined({ ifExists }) }));
    const start = { ...(await this.#startOf(workflow, input, options)), ...defined({ ifExists }) };
    const { name, data = null } = await plainSignal(signal);
    const { clock, random } = this.#parts;
    const body = { name, data, id: signal.id ?? newMessageId(clock.now(), random), start };
    const path = `/v1/executions/${encodeURIComponent(id)}/signals`;
    const { execution, state, started } = await this.requester.json<SignalledStart>(path, {
      method: "POST",
      body,
      isRepeatable: true,
    });
    return { execution: this.execution<W>(execution), started, signal: state };
  }

  async startMany<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    starts: readonly StartItem<WorkflowInput<NoInfer<W>>>[],
  ): Promise<readonly StartOutcome<WorkflowOutput<W>>[]> {
    const isName = typeof workflow === "string";
    if (!isName) checkWorkflow(workflow);
    const { clock, random, requester } = this.#parts;
    const schema = isName ? { inputSchema: undefined } : workflow;
    const texts = await Promise.all(
      starts.map(({ input, ...options }) =>
        startText(schema, input, options, newExecutionId(clock.now(), random)),
      ),
    );
    if (!isName) await this.register(workflow);
    const answers = await sendStarts(requester, referenceTo(workflow), texts);
    return answers.map((answer) =>
      isRejection(answer)
        ? { execution: null, existed: false, error: new RondoError(answer) }
        : { execution: this.execution<W>(answer.id), existed: answer.existed, error: null },
    );
  }

  async run<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options: StartOptions & ResultOptions = {},
  ): Promise<WorkflowOutput<W>> {
    const { signal, timeout, ...start } = options;
    if (start.ifExists !== undefined)
      return (await this.start<W>(workflow, input, start)).result(defined({ signal, timeout }));
    const request = await this.#startRequest(workflow, input, start);
    const handle = new RemoteHandle<WorkflowOutput<W>>(request.body.id, this.#parts);
    return handle.run(request, defined({ signal, timeout }));
  }

  async send(event: EventToSend): Promise<SentEvent> {
    const { clock, random } = this.#parts;
    // The event's id is generated before the first try, so that repeated requests send the event only once.
    const body = { ...event, id: event.id ?? newMessageId(clock.now(), random) };
    return this.requester.json<SentEvent>("/v1/events", { method: "POST", body, isRepeatable: true });
  }

  execution<W extends AnyWorkflow = AnyWorkflow>(id: string): ExecutionHandle<WorkflowOutput<W>> {
    checkId(id);
    return new RemoteHandle<WorkflowOutput<W>>(id, this.#parts);
  }

  async list(options: ListOptions = {}): Promise<ExecutionPage> {
    unwrap(checkList(options));
    const { q, ...filter } = options;
    const search = filter.search ?? q;
    const query = { ...listQuery({ ...filter, ...defined({ search }) }), detail: "full" };
    return this.requester.json<ExecutionPage>("/v1/executions", { query });
  }

  listAll(options?: Omit<ListOptions, "cursor">): AsyncIterable<ExecutionView> {
    return allPages((page) => this.list({ ...options, ...page }));
  }

  logs(id: string, options?: LogsOptions): AsyncIterable<LogEntry> {
    return this.execution(id).logs(options);
  }

  async stateAt(id: string, seq: number): Promise<ExecutionView> {
    if (!Number.isSafeInteger(seq))
      throw new RondoError(reject("invalid_input", "seq: must be a whole number", { path: "seq" }));
    const path = `/v1/executions/${encodeURIComponent(id)}`;
    return this.requester.json<ExecutionView>(path, { query: { at: seq } });
  }

  async close(options: CloseOptions = {}): Promise<void> {
    checkCloseOptions(options);
    await Promise.all([...this.#workers].map((worker) => worker.close(options)));
    this.#calls.abort(closedEarly("the client"));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  submit(project: string, workflow: WorkflowSubmission, options?: SubmitOptions): Promise<WorkflowDocument>;
  submit(project: string, document: ProjectSubmission, options?: SubmitOptions): Promise<ProjectDocument>;
  submit(project: string, document: never, options?: SubmitOptions): Promise<unknown> {
    return this.#commands.submit(project, document, options);
  }

  submitted(project: string, id: string): Promise<WorkflowDocument> {
    return this.#commands.submitted(project, id);
  }

  commands(project: string, options?: CommandsOptions): Promise<CommandsPage> {
    return this.#commands.commands(project, options);
  }

  /** Registers the workflow with the server. Returns the body of the start request without the execution's id. */
  async #startOf(workflow: AnyWorkflow | string, input: unknown, options: StartOptions): Promise<object> {
    const { startAt, deadline, ifExists } = unwrap(checkStart(options));
    const { project, tags } = options;
    const isName = typeof workflow === "string";
    if (!isName) checkWorkflow(workflow);
    const text = unwrap(await validateInput(isName ? { inputSchema: undefined } : workflow, input));
    if (!isName) await this.register(workflow);
    return {
      workflow: referenceTo(workflow),
      input: JSON.parse(text) as unknown,
      ...defined({ project, tags, startAt, deadline, ifExists }),
    };
  }

  /** Sends the definition of a workflow to the server, once for each client. Starts by name use the definition from then on. */
  register(workflow: AnyWorkflow): Promise<unknown> {
    let registered = this.#registered.get(workflow);
    if (registered === undefined) {
      registered = this.requester.json("/v1/workflows", {
        method: "POST",
        body: workflow.definition,
        isRepeatable: true,
      });
      this.#registered.set(workflow, registered);
      registered.catch(() => this.#registered.delete(workflow));
    }
    return registered;
  }
}
