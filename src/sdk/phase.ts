/** Reads the spec of a phase: its options, and its handlers, which are recognised by their shape. */
import type { PhaseDefinition } from "../kernel/definition/definition.ts";
import { checkFields, checkName, checkPhase, invalid, storedCopy } from "./check.ts";
import { ANSWER_OPTIONS, type HandlerData, withDefaults } from "./compile-handler.ts";
import type { Context } from "./context.ts";
import { type AnswerOptions, type AnySpec, specOf } from "./handler.ts";

type Decide<Input, Phases> = (context: Context<Input, Phases>) => string | Promise<string>;

/** Code that chooses the next phase, with the options of that code. */
export interface Decision<Input, Phases> extends AnswerOptions {
  /** Returns the name of the next phase, one of `among`. The function runs again after a failure or a crash. */
  readonly decide: Decide<Input, Phases>;
  /** The phases that `decide` may choose. */
  readonly among: readonly string[];
}

/** Options of a phase: which phase follows. The named phases may be declared later. */
export interface PhaseOptions<Input, Phases, Final extends boolean | "failed" = boolean | "failed"> {
  /**
   * The name of the next phase, or a function that returns one of `among`. To give that function options, write `{ decide,
   * among, retry }`.
   *
   * @default the phase that is declared next
   */
  readonly next?: string | Decide<Input, Phases> | Decision<Input, Phases>;
  /**
   * The phases that a `next` function may choose.
   *
   * @default any
   */
  readonly among?: readonly string[];
  /**
   * The phase that runs next if this phase fails.
   *
   * @default none: the execution fails
   */
  readonly onError?: string;
  /**
   * Whether the execution ends after this phase: `true` ends it as done, `"failed"` as failed with the first error.
   *
   * @default false
   */
  readonly final?: Final;
  /**
   * The most visits of this phase in one execution.
   *
   * @default 1_000
   */
  readonly maxVisits?: number;
}

/** Options of a phase, without their types. */
export type AnyPhaseOptions = PhaseOptions<unknown, unknown>;

/** A phase as it is written in a definition. */
export interface PhaseData extends Omit<PhaseDefinition, "handlers"> {
  readonly handlers: { readonly [name: string]: HandlerData };
}

/** Returns the code that chooses the next phase. It is not a function if the definition names the next phase. */
export function decideOf({ next }: AnyPhaseOptions): unknown {
  return typeof next === "object" && next !== null ? (next.decide ?? null) : next;
}

/** The handlers of a phase: a map of specs by name, or a single spec, whose handler has the name of the phase. */
export type GivenHandlers =
  | { readonly kind: "map"; readonly specs: readonly (readonly [name: string, spec: AnySpec])[] }
  | { readonly kind: "single"; readonly spec: AnySpec };

/** Reads the handlers of a phase. In a map of handlers every value was made by `handler()`; anything else is a single spec. */
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
      `has the handler "${specs[0]?.[0]}" beside "${odd}", which is not a handler`,
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

/** The wire name of the code of `next`, the range of its versions, and the default options. */
interface NextPlace {
  readonly use: string;
  readonly version: string | undefined;
  readonly defaults: AnswerOptions;
}

/** Converts a phase without its handlers to data. `place` says how workers serve the code of `next`. */
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
    throw invalid(
      `${at}.among`,
      "has no effect without a function in next",
      "give next: ({ phases }) => name",
    );
  return next === undefined ? undefined : checkName(next, `${at}.next`);
}
