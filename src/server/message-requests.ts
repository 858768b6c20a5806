/**
 * Carries out requests that come as messages of the broker, with the checks, the rights and the audit log of the HTTP API.
 * In the mode `trusted` every sender is an operator; in the mode `token` a message needs the token of one.
 */
import { inspectNewest } from "../engine/newest.ts";
import type {
  BrokerRequest,
  ControlRequest,
  RequestAnswer,
  RequestPort,
  RequestSender,
  SignalStart,
} from "../protocol/broker-requests.ts";
import { defined } from "../std/defined.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { callerOf } from "./auth/access.ts";
import { type Caller, includes } from "./auth/caller.ts";
import { mayBeToken } from "./auth/tokens.ts";
import { toRejection } from "./http/problem.ts";
import { controlFor, signalFor, signalStartFor } from "./routes/controls.ts";
import { startFor } from "./routes/executions.ts";
import type { Services } from "./routes/services.ts";
import { findByHash } from "./services/find-by-hash.ts";

export class MessageRequests implements RequestPort {
  readonly #services: Services;
  readonly #needsToken: boolean;

  constructor(services: Services, mode: "trusted" | "token") {
    this.#services = services;
    this.#needsToken = mode === "token";
  }

  async handle(request: BrokerRequest, sender: RequestSender): Promise<RequestAnswer | Rejection> {
    try {
      const caller = await this.#callerOf(sender);
      return isRejection(caller) ? caller : await this.#run(request, caller);
    } catch (thrown) {
      const refusal = toRejection(thrown);
      if (refusal === null) throw thrown;
      return refusal;
    }
  }

  async #callerOf({ token, user }: RequestSender): Promise<Caller | Rejection> {
    const name = user === null ? "broker" : `broker:${user}`;
    if (!this.#needsToken && token === null)
      return { name, role: "operator", project: null, token: null, countedBy: null };
    if (token === null)
      return reject("unauthorised", "the message needs the token of an operator in its header `token`");
    const { tokens } = this.#services;
    let known = tokens.find(token);
    if (known === null && mayBeToken(token)) {
      await tokens.renew();
      known = tokens.find(token);
    }
    if (known === null)
      return reject(
        "unauthorised",
        "this server does not know the message's token, or the token has expired",
      );
    if (!includes(known.role, "operator"))
      return reject("forbidden", `this request needs the role operator; ${known.name} is ${known.role}`);
    return callerOf(known);
  }

  async #run(request: BrokerRequest, caller: Caller): Promise<RequestAnswer | Rejection> {
    if (request.kind === "start") {
      const { id, key, workflow, input, options } = request;
      const body = { workflow, input, ...options, ...defined({ id }) };
      const started = await startFor(this.#services, caller, { body, key, trace: null });
      if (isRejection(started)) return started;
      const { existed, view } = started;
      this.#note(caller, "execution.start", started.id, view.project);
      return { workflow_id: started.id, status: view.status, existed };
    }
    const { key, action, signal, data, by, reason, start, force } = request;
    const { id, project } = await this.#meant(request, caller);
    if (isRejection(id)) return id;
    if (start !== undefined)
      return this.#signalOrStart({ id, key, signal: signal ?? "", data, start }, caller);
    const change = { id, key, by, reason, project, force };
    if (action === "signal") {
      const sent = await signalFor(this.#services, caller, { ...change, signal: signal ?? "", data });
      if (isRejection(sent)) return sent;
      this.#note(caller, "execution.signal", `${id} ${signal}`, sent.view.project);
      return { workflow_id: id, status: sent.view.status, state: sent.state };
    }
    const view = await controlFor(this.#services, caller, { ...change, action });
    if (isRejection(view)) return view;
    this.#note(caller, `execution.${action}`, id, view.project);
    return { workflow_id: id, status: view.status };
  }

  async #signalOrStart(
    {
      id,
      key,
      signal,
      data,
      start,
    }: { id: string; key: string; signal: string; data: unknown; start: SignalStart },
    caller: Caller,
  ): Promise<RequestAnswer | Rejection> {
    const { workflow, input, options } = start;
    const request = { id, key, signal, data, start: { workflow, input, ...options }, trace: null };
    const sent = await signalStartFor(this.#services, caller, request);
    if (isRejection(sent)) return sent;
    const { execution, state, started } = sent.answer;
    this.#note(caller, "execution.signal", `${execution} ${signal}`, sent.project);
    const found = await inspectNewest((one) => this.#services.engine.inspect(one), execution);
    if (isRejection(found)) return found;
    return { workflow_id: execution, status: found.view.status, existed: !started, state };
  }

  /** Finds the execution that a control request names by its id or its hashes. */
  async #meant(
    { id, workflowHash, cmdHash, project: named }: ControlRequest,
    caller: Caller,
  ): Promise<{ readonly id: string | Rejection; readonly project: string | undefined }> {
    const project = named ?? caller.project ?? undefined;
    if (id !== undefined) return { id, project };
    const hashes = { workflowHash: workflowHash ?? "", cmdHash };
    return { id: await findByHash(this.#services, hashes, project), project };
  }

  #note({ name: who, role }: Caller, action: string, target: string, project: string): void {
    this.#services.audit.noteLater({ who, role, action, target, project });
  }
}
