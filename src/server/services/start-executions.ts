/** Starts executions for the API: by the name of a workflow, with the input checked against its schema. */

import type { TopicGuard } from "../../commands/topic-guard.ts";
import type { Reply } from "../../engine/driver-options.ts";
import { type EnginePort, startExecution } from "../../engine/engine-port.ts";
import { inspectNewest } from "../../engine/newest.ts";
import {
  SignalStarter,
  type SignalStartParts,
  type SignalWithStart,
  signalState,
} from "../../engine/signal-with-start.ts";
import { startIfExists } from "../../engine/successors.ts";
import type { CommandView } from "../../kernel/command/command-view.ts";
import { LIMITS } from "../../kernel/definition/definition.ts";
import { splitVersionedName } from "../../kernel/definition/version-name.ts";
import type { SignalMessage } from "../../kernel/message.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import type { CheckedStart } from "../../protocol/check-request.ts";
import { canonicalJson } from "../../std/canonical-json.ts";
import type { Clock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import { type Json, toStoredText } from "../../std/json.ts";
import type { Random } from "../../std/random.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { TriggeredWorkflow } from "../../triggers/send-event.ts";
import type { SignalledStart as Signalled } from "../schemas/execution.ts";
import type { Definitions, KnownDefinition } from "./definitions.ts";

/**
 * The most starts of one batch that are under way at a time. It is enough for two of the largest commits. More gained nothing, because a
 * server has other batches and requests beside it.
 */
const STARTS_AT_A_TIME = 512;

export interface StartRequest extends CheckedStart {
  /** The name of the workflow, or one version of it (`NAME@VERSION`). */
  readonly workflow: string;
  readonly input: unknown;
  readonly trace: string | null;
  /**
   * Whether topics need no check at the start: they were checked before, or are checked when commands are sent, so that the
   * execution shows the refusal.
   */
  readonly isAdmitted?: boolean;
  /** Called with the id of the execution before the start is sent; with `ifExists`, after it. */
  readonly onId?: (id: string) => void;
}

export interface Started {
  readonly id: string;
  /** Whether the execution existed before the request, with the same workflow and input. */
  readonly existed: boolean;
  /** The view of the execution after the start. */
  readonly view: ExecutionView;
  /** The commands of the execution right after the start, if it has any and its owner has returned them. */
  readonly commands?: readonly CommandView[];
}

/** An execution that a watched request has started. It has no view, because its end will bring one. */
export interface StartedUnseen extends Pick<Started, "id"> {
  readonly project: string;
  readonly existed: false;
  readonly view: null;
}

export interface StartParts {
  readonly engine: EnginePort;
  readonly store: SignalStartParts["store"];
  readonly definitions: Definitions;
  readonly clock: Clock;
  readonly random: Random;
  readonly topics: Pick<TopicGuard, "admit">;
}

export class ExecutionStarter {
  readonly #parts: StartParts;
  readonly #signals: SignalStarter;

  constructor(parts: StartParts) {
    this.#parts = parts;
    this.#signals = new SignalStarter(parts);
  }

  /** Returns why the engine would refuse a start because of its workflow or input; null if it would accept the start. */
  async check(request: Pick<StartRequest, "workflow" | "input">): Promise<Rejection | null> {
    const prepared = await this.#prepare(request);
    return isRejection(prepared) ? prepared : null;
  }

  /** Starts an execution, or finds the one that an equal request started before. Resolves when the execution is durable. */
  async start(request: StartRequest): Promise<Started | Rejection> {
    return (await this.#start(request, { isWatched: false })) as Started | Rejection;
  }

  /** Does what `start` does, for a caller that watches the execution to its end: an execution that is new has no view. */
  startWatched(request: StartRequest): Promise<Started | StartedUnseen | Rejection> {
    return this.#start(request, { isWatched: true });
  }

  async #start(
    request: StartRequest,
    options: { readonly isWatched: boolean },
  ): Promise<Started | StartedUnseen | Rejection> {
    const prepared = await this.#prepare(request);
    if (!isRejection(prepared)) return this.#begin(prepared.known, prepared.text, request, options);
    return prepared.code === "invalid_input" ? ((await this.#repeated(request)) ?? prepared) : prepared;
  }

  /** Starts an execution of a stored definition with a valid input, which is given as JSON text. */
  async begin(
    known: KnownDefinition,
    text: string,
    request: Omit<StartRequest, "workflow" | "input">,
  ): Promise<Started | Rejection> {
    return (await this.#begin(known, text, request, { isWatched: false })) as Started | Rejection;
  }

  async #begin(
    known: KnownDefinition,
    text: string,
    request: Omit<StartRequest, "workflow" | "input">,
    { isWatched }: { readonly isWatched: boolean },
  ): Promise<Started | StartedUnseen | Rejection> {
    const { engine, topics } = this.#parts;
    const refusal = request.isAdmitted ? null : await topics.admit(request.project, known.plan.commands);
    if (refusal !== null) return refusal;
    const { id, reply } = await this.#send(known, text, request, { views: !isWatched });
    const { answer, existed, view, commands } = reply;
    if (isRejection(answer)) return answer;
    // A watch of this node's own execution began before the start, so it misses no end.
    const { project, ifExists } = request;
    if (isWatched && !existed && ifExists === undefined && engine.isOwn(id))
      return { id, project, existed, view: null };
    if (view !== undefined) return { id, existed, view, ...defined({ commands }) };
    // The reply has no view if another node has started the execution, or if `ifExists` decided about the id. Then the view is read.
    const found = await inspectNewest((one) => engine.inspect(one), id);
    return isRejection(found) ? found : { id, existed, view: found.view };
  }

  /** Sends a start. `ifExists` decides what happens if the id exists already. */
  async #send(
    { plan }: KnownDefinition,
    input: string,
    request: Omit<StartRequest, "workflow" | "input">,
    options: { readonly views?: boolean } = {},
  ): Promise<{ readonly id: string; readonly reply: Reply }> {
    const { ifExists } = request;
    if (ifExists === undefined) {
      const start = startExecution(this.#parts, plan, input, request);
      request.onId?.(start.id);
      return { id: start.id, reply: await start.send(options) };
    }
    const { id, reply } = await startIfExists(this.#parts, { plan, input }, { ...request, ifExists });
    const { answer, existed } = reply;
    if (isRejection(answer)) return { id, reply };
    request.onId?.(id);
    // The view is read later, after `onId` was called, so that an end in between is not missed.
    return { id, reply: { answer, existed } };
  }

  /** Signals an execution, or starts it with the signal. Resolves when the signal is durable. */
  async signal(
    request: Omit<StartRequest, "ifExists"> & SignalWithStart,
    signal: SignalMessage,
  ): Promise<Signalled | Rejection> {
    const prepared = await this.#prepare(request);
    if (isRejection(prepared)) return prepared;
    const { known, text } = prepared;
    const refusal =
      (await refusedSignal(known, signal.signal, JSON.parse(signal.data) as Json)) ??
      (await this.#parts.topics.admit(request.project, known.plan.commands));
    if (refusal !== null) return refusal;
    const given = { plan: known.plan, input: text, signal };
    const { id, reply } = await this.#signals.send(given, request);
    const state = signalState(reply.answer);
    if (isRejection(state)) return state;
    return { execution: id, signal: signal.signal, state, started: !reply.existed };
  }

  /**
   * Starts executions of one workflow, or finds those that equal requests started before. Starts that are sent in one turn of the event
   * loop share commits. Returns an answer for each start, in their order, or one rejection for all. `requestOf` makes the
   * request of a start when it is sent, so that the requests of a whole batch are not in memory.
   */
  async startMany<S extends { readonly input?: unknown }>(
    { workflow, project }: Pick<StartRequest, "workflow" | "project">,
    starts: readonly S[],
    requestOf: (start: S, i: number) => Omit<StartRequest, "workflow"> | Rejection,
  ): Promise<readonly (Pick<Started, "id" | "existed"> | Rejection)[] | Rejection> {
    const { definitions, topics } = this.#parts;
    const known = await definitions.newest(workflow);
    if (isRejection(known)) return known;
    const refusal = await topics.admit(project, known.plan.commands);
    if (refusal !== null) return refusal;
    // If there is a schema, all inputs are checked before the first start is sent.
    const texts = known.input === null ? null : await textsOf(known, starts);
    const answers: (Pick<Started, "id" | "existed"> | Rejection)[] = new Array(starts.length);
    let next = 0;
    const begin = async (i: number): Promise<void> => {
      const start = starts[i] as S;
      const request = requestOf(start, i);
      const text = texts === null ? storedText(start.input) : (texts[i] as string | Rejection);
      if (isRejection(request)) answers[i] = request;
      else if (!isRejection(text)) answers[i] = await this.#startOne(known, text, request);
      else if (text.code !== "invalid_input") answers[i] = text;
      else answers[i] = (await this.#repeated({ ...request, workflow })) ?? text;
    };
    const lane = async (): Promise<void> => {
      while (next < starts.length) await begin(next++);
    };
    const lanes = Array.from({ length: Math.min(STARTS_AT_A_TIME, starts.length) }, lane);
    await Promise.all(lanes).catch((fault: unknown) => {
      // The caller gets no answers, so no further start is sent.
      next = starts.length;
      throw fault;
    });
    return answers;
  }

  /** Starts one execution of a batch, or finds the one that an equal request started before. */
  async #startOne(
    known: KnownDefinition,
    text: string,
    request: Omit<StartRequest, "workflow">,
  ): Promise<Pick<Started, "id" | "existed"> | Rejection> {
    const { id, reply } = await this.#send(known, text, request);
    const { answer, existed } = reply;
    if (isRejection(answer)) return answer;
    if (!existed) return { id, existed };
    const found = await this.#parts.engine.inspect(id);
    if (isRejection(found)) return found;
    return found.view.project === request.project
      ? { id, existed }
      : reject("conflict", `execution ${id} exists in another project`);
  }

  /** The newest definition of a workflow as triggers need it; null if there is none. */
  async triggered(workflow: string): Promise<TriggeredWorkflow | Rejection | null> {
    const known = await this.#parts.definitions.newest(workflow);
    if (isRejection(known)) return known.code === "not_found" ? null : known;
    return { plan: known.plan, check: async (input) => textOf(known, input) };
  }

  /** Finds the execution that an equal request started under an older definition; null if there is none. */
  async #repeated({ id, workflow, input }: StartRequest): Promise<Started | null> {
    if (id === undefined) return null;
    const found = await this.#parts.engine.inspect(id);
    if (isRejection(found) || found.view.workflow !== splitVersionedName(workflow).name) return null;
    const isSame = canonicalJson(found.view.input) === canonicalJson((input ?? null) as Json);
    return isSame ? { id, existed: true, view: found.view } : null;
  }

  async #prepare({
    workflow,
    input,
  }: Pick<StartRequest, "workflow" | "input">): Promise<
    { known: KnownDefinition; text: string } | Rejection
  > {
    const known = await this.#parts.definitions.newest(workflow);
    if (isRejection(known)) return known;
    const text = await textOf(known, input);
    return isRejection(text) ? text : { known, text };
  }
}

/** Returns why the data of a signal matches the schema of no wait for it; null if it matches one, or if a wait has no schema. */
export async function refusedSignal(
  { signals }: KnownDefinition,
  signal: string,
  data: Json,
): Promise<Rejection | null> {
  let refusal: Rejection | null = null;
  for (const check of signals.get(signal) ?? []) {
    refusal = await check.check(data, "data");
    if (refusal === null) return null;
  }
  return refusal;
}

/** The inputs of a batch in their stored form, checked by the schema. */
function textsOf(
  known: KnownDefinition,
  starts: readonly { readonly input?: unknown }[],
): Promise<readonly (string | Rejection)[]> {
  return Promise.all(starts.map(async ({ input }) => textOf(known, input)));
}

/** The input in its stored form, or the reason why the engine would refuse it. */
function textOf(known: KnownDefinition, input: unknown): string | Rejection | Promise<string | Rejection> {
  const text = storedText(input);
  if (isRejection(text) || known.input === null) return text;
  return known.input.check((input ?? null) as Json, "input").then((wrong) => wrong ?? text);
}

function storedText(input: unknown): string | Rejection {
  return toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "input" });
}

/** Parses a time of the API: ISO 8601 with a zone, or milliseconds since 1970. */
export function timeOf(time: string | number, path: string): number | Rejection {
  const ms = typeof time === "number" ? time : Date.parse(time);
  return Number.isNaN(ms) ? reject("invalid_input", `${path}: "${time}" is not a time`, { path }) : ms;
}
