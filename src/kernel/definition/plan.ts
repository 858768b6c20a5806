/**
 * The plan of a definition: a checked definition with names resolved to indexes, defaults filled in, and the `returns` phase
 * appended.
 */
import { assert } from "../../std/assert.ts";
import { contentHash } from "../../std/canonical-json.ts";
import type { Json } from "../../std/json.ts";
import { type CommandPlan, commandPlanner } from "../command/command-plan.ts";
import { planReferred, type Referred } from "../command/reference.ts";
import { topicUse } from "../command/topic-rules.ts";
import { isRelayName } from "../relay/relay.ts";
import {
  type AnswerDefinition,
  COMPENSATION,
  DEFAULTS,
  type Definition,
  type HandlerDefinition,
  knownSignals,
  LAST,
  NEXT,
  type PhaseDefinition,
  RETURNS,
} from "./definition.ts";

export { NEXT, RETURNS };

/** The version of events that introduced the clean-up, `unread`, and options of `next` and `returns` in definitions. */
const SINCE_5 = 5;
/** The version of events that introduced `returns: "last"`, versions of workflows, tasks that add tasks, tasks that wait for tasks, triggers, and rates that are spread or count by key. */
const SINCE_6 = 6;
/** The version of events that introduced definitions whose commands are in the input. */
export const GIVEN_COMMANDS_SINCE = 8;

/** The name under which workers serve script tasks. */
export const SCRIPT_USE = "~script";

/** The code that a task needs: a name and a range of versions. */
export interface Wanted {
  readonly use: string;
  /** The range of versions; null for any version. */
  readonly range: string | null;
  /** Whether the code must enumerate tasks. Code that only processes tasks does not match then. */
  readonly enumerates: boolean;
  /** The name, the range and `enumerates` joined into one text, as a key for maps. */
  readonly key: string;
}

export interface HandlerPlan {
  readonly name: string;
  readonly mode: "use" | "sleep" | "waitFor" | "command" | "script" | "workflow";
  /** Whether the handler is a sleep or a wait. A timer or a signal settles its only task, without a worker. */
  readonly waits: boolean;
  /** The wire name of the code that processes tasks; empty if no worker does. */
  readonly use: string;
  /** The name, within a project, of the limits of the handler. */
  readonly scope: string;
  readonly wanted: Wanted;
  /** The code that enumerates the handler's tasks. It is used only if `enumerateUse` is set. */
  readonly enumerator: Wanted;
  /** The wire name of the code that enumerates; null if no code enumerates, because the definition determines the tasks. */
  readonly enumerateUse: string | null;
  readonly definition: HandlerDefinition;
  /** The command that is sent to a topic; null if the handler is not a command. */
  readonly command: CommandPlan | null;
  readonly attempts: number;
  readonly crashes: number;
  readonly backoff: "exponential" | "constant";
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  readonly timeoutMs: number | null;
  /** The time without a heartbeat after which an attempt is lost; null for the default of the node's settings. */
  readonly heartbeatMs: number | null;
  readonly priority: number;
  readonly tolerateCount: number;
  /** The tolerated failures in millionths of all tasks, checked when the number of tasks is final; null if `tolerate` is a number. */
  readonly tolerateMillionths: number | null;
  readonly work: "process" | "next" | "returns";
  /** Whether the result of the handler's only task is the output of an execution that ends in its phase. */
  readonly isOutput: boolean;
  /** Whether tasks add tasks, so that the number of tasks is final only when all of them are settled. */
  readonly adds: boolean;
  /** Whether the handler's tasks have a compensation. If so, each start is journaled before the attempt is granted. */
  readonly isCompensated: boolean;
  /** Whether the handler compensates the tasks of another handler with the same name. Its tasks then have the same numbers and texts. */
  readonly compensates: boolean;
}

export interface PhasePlan {
  readonly index: number;
  readonly name: string;
  readonly handlers: readonly HandlerPlan[];
  readonly decision: HandlerPlan | null;
  readonly among: readonly string[];
  /** The index of the phase that follows this one; -1 if this is the last phase. */
  readonly next: number;
  readonly onError: number;
  readonly final: true | "failed" | null;
  readonly maxVisits: number;
  /** The name of the phase that this phase compensates; null if this phase is in the definition. */
  readonly compensates: string | null;
}

/** A command of a workflow and its place. */
export interface PlannedCommand {
  readonly phase: PhasePlan;
  readonly handler: HandlerPlan;
  readonly command: CommandPlan;
}

export interface Plan {
  readonly hash: string;
  /** The first version of events for which Rondo knows all fields of the definition. */
  readonly version: number;
  readonly definition: Definition;
  readonly phases: readonly PhasePlan[];
  /** The phases of the definition, and those that compensate them, by name. */
  readonly byName: ReadonlyMap<string, PhasePlan>;
  /** The phases that compensate other phases. They are not in the definition. */
  readonly compensations: readonly PhasePlan[];
  /** The index of the first phase. */
  readonly first: number;
  /** For each signal name, the phase that must read kept signals of this name before the execution can be done. */
  readonly unread: ReadonlyMap<string, PhasePlan>;
  /** The signals for which an execution can wait; null if the definition does not list those of its code. */
  readonly signals: ReadonlySet<string> | null;
  /** The phases of the clean-up: after a cancel, after a failure, and at the end in any case. */
  readonly onCancel: PhasePlan | null;
  readonly onFailure: PhasePlan | null;
  readonly finally: PhasePlan | null;
  readonly cleanupTimeoutMs: number;
  /** The commands of the workflow in order. */
  readonly commands: readonly PlannedCommand[];
  /** The parts of results that are kept because later commands refer to them. */
  readonly referred: Referred;
  /** The index of the `returns` phase; -1 if there is none. */
  readonly returns: number;
  /** Whether the output is the result of the last phase, without code that computes it. */
  readonly returnsLast: boolean;
}

/** Compiles a checked definition. */
export function compilePlan(definition: Definition): Plan {
  const indexOf = new Map(definition.phases.map((phase, i) => [phase.name, i]));
  const at = (name: string): number => {
    const index = indexOf.get(name);
    assert(index !== undefined, `a checked definition must contain the phase ${name}`);
    return index;
  };
  const commandOf = commandPlanner(definition);
  const cleanups = [definition.onCancel, definition.onFailure, definition.finally];
  /** Returns the index of the first phase at or after `from` that the default order enters; -1 if there is none. */
  const inOrder = (from: number): number =>
    definition.phases.findIndex(({ name }, i) => i >= from && !cleanups.includes(name));
  const returnsLast = definition.returns === LAST;
  const isRelay = isRelayName(definition.name);
  const phases = definition.phases.map((phase, i): PhasePlan => {
    const next =
      phase.final !== undefined
        ? -1
        : typeof phase.next === "string"
          ? at(phase.next)
          : cleanups.includes(phase.name)
            ? -1
            : inOrder(i + 1);
    const isLast = next < 0 && typeof phase.next !== "object" && !cleanups.includes(phase.name);
    const isOutput = returnsLast && isLast && Object.keys(phase.handlers).length === 1;
    return {
      index: i,
      name: phase.name,
      handlers: Object.entries(phase.handlers).map(([name, handler]) =>
        planHandler(name, handler, {
          work: "process",
          scope: `${definition.name}.${phase.name}.${name}`,
          command: commandOf(handler),
          isOutput: isOutput && handler.tasks === undefined && handler.enumerate === undefined,
        }),
      ),
      decision: planDecision(phase),
      among: typeof phase.next === "object" ? phase.next.among : [],
      next,
      onError: phase.onError === undefined ? -1 : at(phase.onError),
      final: phase.final ?? null,
      maxVisits: phase.maxVisits ?? DEFAULTS.maxVisits,
      compensates: null,
    };
  });
  const answer = definition.returns === LAST ? undefined : definition.returns;
  const returns = answer === undefined ? -1 : phases.length;
  if (answer !== undefined) phases.push(planReturns(returns, answer));
  const commands = phases.flatMap((phase) =>
    phase.handlers.flatMap((handler) =>
      handler.command === null ? [] : [{ phase, handler, command: handler.command }],
    ),
  );
  const compensations = phases.flatMap((phase) => planCompensation(definition.name, phase));
  const byName = new Map([...phases, ...compensations].map((phase) => [phase.name, phase]));
  const named = (name: string | undefined): PhasePlan | null =>
    name === undefined ? null : (byName.get(name) ?? null);
  return {
    hash: definitionHash(definition),
    version:
      definition.commands !== undefined
        ? GIVEN_COMMANDS_SINCE
        : isRelay || isSince6(definition) || isGrowing(definition)
          ? SINCE_6
          : compensations.length > 0 || isSince5(definition)
            ? SINCE_5
            : 1,
    definition,
    phases,
    byName,
    compensations,
    first: isRelay ? -1 : inOrder(0),
    unread: new Map(
      Object.entries(definition.unread ?? {}).map(([signal, name]) => [
        signal,
        phases[at(name)] as PhasePlan,
      ]),
    ),
    signals: definition.signals === undefined ? null : knownSignals(definition),
    onCancel: named(definition.onCancel),
    onFailure: named(definition.onFailure),
    finally: named(definition.finally),
    cleanupTimeoutMs: definition.cleanupTimeout ?? DEFAULTS.cleanupTimeoutMs,
    commands,
    referred: planReferred(commands.flatMap(({ command }) => command.references)),
    returns,
    returnsLast,
  };
}

/** Makes the plan of the phase that computes the output. */
function planReturns(index: number, answer: AnswerDefinition): PhasePlan {
  return {
    index,
    name: RETURNS,
    handlers: [planHandler(RETURNS, answer, { work: "returns", scope: RETURNS })],
    decision: null,
    among: [],
    next: -1,
    onError: -1,
    final: true,
    // No limit is needed: this phase is visited again only after a phase of `unread`, and visits of that phase are limited.
    maxVisits: Number.POSITIVE_INFINITY,
    compensates: null,
  };
}

/** Whether a definition has fields that version 6 of events introduced. */
function isSince6({ returns, version, phases, on, signals }: Definition): boolean {
  if ([version, on, signals].some((field) => field !== undefined)) return true;
  if (returns === LAST || returns?.version !== undefined) return true;
  return phases.some(
    ({ next, handlers }) =>
      (typeof next === "object" && next.version !== undefined) ||
      Object.values(handlers).some(
        ({ rate, ratePerKey }) => rate?.spread !== undefined || ratePerKey !== undefined,
      ),
  );
}

/** Whether a definition has fields, other than compensations, that version 5 of events introduced. */
function isSince5({ phases, returns, unread, onCancel, onFailure, finally: last }: Definition): boolean {
  if ([unread, onCancel, onFailure, last].some((field) => field !== undefined)) return true;
  const answers = [
    returns === LAST ? undefined : returns,
    ...phases.map(({ next }) => (typeof next === "object" ? next : undefined)),
  ];
  return answers.some((answer) => answer?.retry !== undefined || answer?.timeout !== undefined);
}

/** Whether a definition has tasks that add tasks, or tasks that wait for other tasks. */
function isGrowing({ phases }: Definition): boolean {
  return phases.some(({ handlers }) =>
    Object.values(handlers).some(({ adds, after }) => adds !== undefined || after !== undefined),
  );
}

/** Makes the plan of the phase that compensates another phase. Returns an empty list if no handler of that phase has a compensation. */
function planCompensation(workflow: string, phase: PhasePlan): PhasePlan[] {
  const handlers = phase.handlers.flatMap(({ name, definition: { compensate } }) =>
    compensate === undefined
      ? []
      : [
          planHandler(name, compensate, {
            work: "process",
            scope: `${workflow}.${phase.name}.${name}`,
            compensates: true,
          }),
        ],
  );
  if (handlers.length === 0) return [];
  const name = `${phase.name}${COMPENSATION}`;
  const rest = { decision: null, among: [], next: -1, onError: -1, final: null, maxVisits: phase.maxVisits };
  return [{ index: -1, name, handlers, ...rest, compensates: phase.name }];
}

function planDecision(phase: PhaseDefinition): HandlerPlan | null {
  if (typeof phase.next !== "object") return null;
  const { among: _, ...definition } = phase.next;
  return planHandler(NEXT, definition, { work: "next", scope: NEXT });
}

function planHandler(
  name: string,
  definition: HandlerDefinition,
  {
    work,
    scope,
    command = null,
    compensates = false,
    isOutput = false,
  }: {
    work: HandlerPlan["work"];
    scope: string;
    command?: CommandPlan | null;
    compensates?: boolean;
    isOutput?: boolean;
  },
): HandlerPlan {
  const mode = modeOf(definition);
  const use =
    mode === "script" ? SCRIPT_USE : command === null ? (definition.use ?? "") : topicUse(command.topic);
  const range = definition.version ?? null;
  const enumerateUse = definition.enumerate?.use ?? null;
  const retry = definition.retry ?? {};
  const { tolerate } = definition;
  return {
    name,
    mode,
    waits: mode === "sleep" || mode === "waitFor",
    use,
    scope: mode === "use" || mode === "command" ? use : scope,
    wanted: want(use, range, false),
    enumerateUse,
    enumerator: want(enumerateUse ?? use, (enumerateUse ?? use) === use ? range : null, true),
    definition,
    command,
    attempts: retry.attempts ?? DEFAULTS.attempts,
    crashes: retry.crashes ?? DEFAULTS.crashes,
    backoff: retry.backoff ?? "exponential",
    retryMinMs: retry.min ?? DEFAULTS.retryMinMs,
    retryMaxMs: retry.max ?? DEFAULTS.retryMaxMs,
    timeoutMs: hasWorkers(mode) ? (definition.timeout ?? null) : null,
    heartbeatMs: definition.heartbeat ?? null,
    priority: definition.priority ?? 0,
    tolerateCount:
      typeof tolerate === "number" ? tolerate : typeof tolerate === "string" ? Number.POSITIVE_INFINITY : 0,
    // A percentage has at most four decimals, so this is an integer.
    tolerateMillionths:
      typeof tolerate === "string" ? Math.round(Number.parseFloat(tolerate) * 10_000) : null,
    work,
    isOutput,
    adds: definition.adds === true,
    isCompensated: definition.compensate !== undefined,
    compensates,
  };
}

function want(use: string, range: string | null, enumerates: boolean): Wanted {
  const key = range === null ? use : `${use} ${range}`;
  return { use, range, enumerates, key: enumerates ? `${key}\nenumerate` : key };
}

function hasWorkers(mode: HandlerPlan["mode"]): boolean {
  return mode === "use" || mode === "script" || mode === "command";
}

function modeOf(definition: HandlerDefinition): HandlerPlan["mode"] {
  if (definition.sleep !== undefined) return "sleep";
  if (definition.waitFor !== undefined) return "waitFor";
  if (definition.script !== undefined) return "script";
  if (definition.command !== undefined) return "command";
  return definition.workflow === undefined ? "use" : "workflow";
}

/** Returns the hash that identifies a definition. */
export function definitionHash(definition: Definition): string {
  return contentHash(definition as unknown as Json);
}
