/** Reads a phase spec: its handlers, recognised by their shape, and its options. */
import type { PhaseDefinition } from "../kernel/definition/definition.ts";
import { checkFields, checkName, checkPhase, invalid, storedCopy } from "./check.ts";
import type { HandlerData } from "./compile-handler.ts";
import type { Context } from "./context.ts";
import { type AnySpec, specOf } from "./handler.ts";

/** Options of a phase: where it leads. Targets may be declared later. */
export interface PhaseOptions<Input, Phases> {
  /**
   * The phase after this one, or code that gives one of `among`.
   *
   * @default the phase that is declared next
   */
  readonly next?: string | ((context: Context<Input, Phases>) => string | Promise<string>);
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
  readonly final?: boolean | "failed";
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

/** Converts a phase without its handlers to data. The wire name is for a `next` function. */
export function readPhase(name: string, options: AnyPhaseOptions, use: string): Omit<PhaseData, "handlers"> {
  const at = `phase "${name}"`;
  checkFields(options, at, ["next", "among", "onError", "final", "maxVisits"]);
  const { onError, final, maxVisits } = options;
  const next = readNext(options, { at, use });
  const phase = { name, next, onError, final: final === false ? undefined : final, maxVisits };
  checkPhase(phase);
  return storedCopy(phase, at) as unknown as Omit<PhaseData, "handlers">;
}

function readNext(
  { next, among }: AnyPhaseOptions,
  { at, use }: { readonly at: string; readonly use: string },
): unknown {
  if (typeof next === "function") return { use, among };
  if (among !== undefined)
    throw invalid(`${at}.among`, "has no next function to choose", "give next: ({ phases }) => name");
  return next === undefined ? undefined : checkName(next, `${at}.next`);
}
