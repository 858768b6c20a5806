/** Reads a phase spec: its handlers, recognised by their shape, and its options. */
import type { PhaseDefinition } from "../kernel/definition/definition.ts";
import { checkFields, checkName, checkPhase, invalid, storedCopy } from "./check.ts";
import { ANSWER_OPTIONS, type HandlerData, withDefaults } from "./compile-handler.ts";
import type { Context } from "./context.ts";
import { type AnswerOptions, type AnySpec, specOf } from "./handler.ts";

type Decide<Input, Phases> = (context: Context<Input, Phases>) => string | Promise<string>;

/** Code that chooses the phase after this one, with its options. */
export interface Decision<Input, Phases> extends AnswerOptions {
  /** Gives the name of the next phase, one of `among`. It runs again after a failure or a crash. */
  readonly decide: Decide<Input, Phases>;
  /** The phases that it may give. */
  readonly among: readonly string[];
}

/** Options of a phase: where it leads. Targets may be declared later. */
export interface PhaseOptions<Input, Phases, Final extends boolean | "failed" = boolean | "failed"> {
  /**
   * The phase after this one, or code that gives one of `among`; with options of that code: `{ decide, among, retry }`.
   *
   * @default the phase that is declared next
   */
  readonly next?: string | Decide<Input, Phases> | Decision<Input, Phases>;
  /**
   * The phases that a `next` function may give.
   *
   * @default any
   */
  readonly among?: readonly string[];
  /**
   * The phase to go on with when this one fails.
   *
   * @default none: the execution fails
   */
  readonly onError?: string;
  /**
   * `true` ends the execution as done after this phase, `"failed"` as failed with the first error.
   *
   * @default false
   */
  readonly final?: Final;
  /**
   * How often an execution may visit this phase.
   *
   * @default 1_000
   */
  readonly maxVisits?: number;
}

/** Options of a phase, without their types. */
export type AnyPhaseOptions = PhaseOptions<unknown, unknown>;

/** A phase of a definition, as it is written. */
export interface PhaseData extends Omit<PhaseDefinition, "handlers"> {
  readonly handlers: { readonly [name: string]: HandlerData };
}

/** The code that chooses the next phase; undefined: the definition says it. */
export function decideOf({ next }: AnyPhaseOptions): unknown {
  return typeof next === "object" && next !== null ? (next.decide ?? null) : next;
}

/** The handlers of a phase: specs by name in a map, or a single one that is named like its phase. */
export type GivenHandlers =
  | { readonly kind: "map"; readonly specs: readonly (readonly [name: string, spec: AnySpec])[] }
  | { readonly kind: "single"; readonly spec: AnySpec };

/** Distinguishes a map of handlers from a single one: only the values of a map are made by `handler()`. */
export function readHandlers(given: unknown, at: string): GivenHandlers {
  const made = specOf(given);
  if (made !== undefined) return { kind: "single", spec: made };
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw typeof given === "function"
      ? invalid(at, "a function alone is not a handler", "give { process: ... }")
      : invalid(at, "has no handlers", "give one handler, a map of them, or {} for none");
  const entries = Object.entries(given);
  const specs = entries.flatMap(([name, value]) => {
    const spec = specOf(value);
    return spec === undefined ? [] : [[name, spec] as const];
  });
  if (specs.length === entries.length) return { kind: "map", specs };
  const [odd] = entries.find(([, value]) => specOf(value) === undefined) ?? [""];
  if (specs.length > 0)
    throw invalid(
      at,
      `has the handler "${specs[0]?.[0]}" beside "${odd}", which is none`,
      "wrap it in handler({...})",
    );
  const isUnwrapped = entries.every(([, value]) => looksLikeSpec(value));
  if (isUnwrapped)
    throw invalid(at, `"${odd}" is not a handler`, "in a map of handlers, wrap each in handler({...})");
  return { kind: "single", spec: given };
}

function looksLikeSpec(value: unknown): boolean {
  return typeof value === "object" && value !== null && ("process" in value || "processBatch" in value);
}

/** The place of the code of `next`, the range of versions that is wanted, and the defaults of its options. */
interface NextPlace {
  readonly use: string;
  readonly version: string | undefined;
  readonly defaults: AnswerOptions;
}

/** Converts a phase without its handlers to data. The place is for code of `next`. */
export function readPhase(
  name: string,
  options: AnyPhaseOptions,
  place: NextPlace,
): Omit<PhaseData, "handlers"> {
  const at = `phase "${name}"`;
  checkFields(options, at, ["next", "among", "onError", "final", "maxVisits"]);
  const { onError, final, maxVisits } = options;
  const next = readNext(options, at, place);
  const phase = { name, next, onError, final: final === false ? undefined : final, maxVisits };
  checkPhase(phase);
  return storedCopy(phase, at) as unknown as Omit<PhaseData, "handlers">;
}

function readNext(
  { next, among }: AnyPhaseOptions,
  at: string,
  { use, version, defaults }: NextPlace,
): unknown {
  if (typeof next === "function") return { use, version, among, ...withDefaults({}, defaults) };
  if (typeof next === "object" && next !== null) {
    checkFields(next, `${at}.next`, ["decide", "among", ...ANSWER_OPTIONS]);
    if (among !== undefined) throw invalid(`${at}.among`, "is given twice", "write it beside decide only");
    return { use, version, among: next.among, ...withDefaults(next, defaults) };
  }
  if (among !== undefined)
    throw invalid(`${at}.among`, "has no next function to choose", "give next: ({ phases }) => name");
  return next === undefined ? undefined : checkName(next, `${at}.next`);
}
