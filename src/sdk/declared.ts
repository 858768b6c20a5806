/** Signals and updates that a program declares once, so that sender and receiver have their types, and a misspelt name does not compile. */
import { refuseName } from "../kernel/definition/names.ts";
import type { Json } from "../std/json.ts";
import { isRejection, RondoError } from "../std/rejection.ts";
import { invalid } from "./check.ts";
import {
  isStandardSchema,
  parseWithSchema,
  type SchemaInput,
  type SchemaOutput,
  type StandardSchema,
} from "./standard-schema.ts";

/** A signal with its name and the types of its data: as it is sent, and as a wait gets it. */
export interface SignalType<Data, Taken = Data> {
  /** Distinguishes signals from updates. */
  readonly kind: "signal";
  /** The name of the signal. */
  readonly name: string;
  /** Checks the data. */
  readonly schema?: StandardSchema;
  /** The types of the data. This member exists only in the type, never at run time. */
  readonly "~signal"?: { readonly data: Data; readonly taken: Taken };
}

/** An update with its name and the types of its data and its answer. */
export interface UpdateType<Data, Answer, Taken = Data> {
  /** Distinguishes updates from signals. */
  readonly kind: "update";
  /** The name of the update. */
  readonly name: string;
  /** Checks the data. */
  readonly schema?: StandardSchema;
  /** The types of the data and the answer. This member exists only in the type, never at run time. */
  readonly "~update"?: { readonly data: Data; readonly taken: Taken; readonly answer: Answer };
}

/**
 * Declares a signal. `execution.signal(approved, data)` and `waitFor(approved)` then have the type of its data.
 *
 * @throws RondoError with the code `invalid_definition` if the name or the schema is wrong
 * @example const approved = defineSignal("approved", z.object({ by: z.string() }));
 */
export function defineSignal<Schema extends StandardSchema>(
  name: string,
  schema: Schema,
): SignalType<SchemaInput<Schema>, SchemaOutput<Schema>>;
/**
 * Declares a signal by the type of its data only.
 *
 * @throws RondoError with the code `invalid_definition` if the name is wrong
 * @example const approved = defineSignal<{ by: string }>("approved");
 */
export function defineSignal<Data = Json>(name: string): SignalType<Data>;
export function defineSignal(name: string, schema?: StandardSchema): SignalType<unknown> {
  return { kind: "signal", ...declared(name, schema) };
}

/** The schemas of an update. */
export interface UpdateSchemas<Data extends StandardSchema, Answer extends StandardSchema> {
  /** Checks the data of the update, once when it is sent and once when a task receives it. Data that does not fit is refused. */
  readonly data: Data;
  /**
   * Gives the answer its type.
   *
   * @default any JSON
   */
  readonly answer?: Answer;
}

/**
 * Declares an update: `execution.update(add, data)` gives its answer, and `updates(add)` the requests, both with types.
 *
 * @throws RondoError with the code `invalid_definition` if the name or a schema is wrong
 * @example const add = defineUpdate("add", { data: z.object({ sku: z.string() }), answer: z.number() });
 */
export function defineUpdate<
  Data extends StandardSchema,
  Answer extends StandardSchema = StandardSchema<Json>,
>(
  name: string,
  schemas: UpdateSchemas<Data, Answer>,
): UpdateType<SchemaInput<Data>, SchemaOutput<Answer>, SchemaOutput<Data>>;
/**
 * Declares an update by the types of its data and its answer only.
 *
 * @throws RondoError with the code `invalid_definition` if the name is wrong
 * @example const add = defineUpdate<{ sku: string }, number>("add");
 */
export function defineUpdate<Data = Json, Answer = Json>(name: string): UpdateType<Data, Answer>;
export function defineUpdate(
  name: string,
  schemas?: UpdateSchemas<StandardSchema, StandardSchema>,
): UpdateType<unknown, unknown> {
  return { kind: "update", ...declared(name, schemas?.data) };
}

function declared(name: string, schema: StandardSchema | undefined) {
  const wrong = refuseName(name, "name", "the name of a signal or update");
  if (wrong !== null) throw invalid("name", wrong.message);
  if (schema !== undefined && !isStandardSchema(schema)) throw invalid("schema", "is not a Standard Schema");
  return schema === undefined ? { name } : { name, schema };
}

/** A declared signal or update, without its types. */
export interface Declared {
  readonly name: string;
  readonly schema?: StandardSchema;
}

/** Returns the signal of a `signalWithStart` with its name as a string. The data of a declared signal is checked by its schema first. */
export async function plainSignal<
  Signal extends { readonly name: string | Declared; readonly data?: unknown },
>(signal: Signal): Promise<Omit<Signal, "name"> & { readonly name: string }> {
  // JavaScript callers may pass any value as the name. A later check refuses a name that is not a string.
  const name = (signal as Partial<Signal> | null)?.name;
  if (!(name instanceof Object)) return signal as Signal & { readonly name: string };
  return { ...signal, name: (await checkedData(name, signal.data)).name };
}

/** Returns the name of a signal or update, and its data. Throws if the data does not fit the declared schema. */
export async function checkedData(
  given: string | Declared,
  data: unknown,
): Promise<{ readonly name: string; readonly data: unknown }> {
  if (typeof given === "string") return { name: given, data };
  const { name, schema } = given;
  if (schema === undefined) return { name, data };
  const parsed = await parseWithSchema(schema, data, `"${name}"`);
  if (isRejection(parsed)) throw new RondoError(parsed);
  // The data is sent as the caller gave it, not as the schema parsed it, because the receiver parses it again.
  return { name, data };
}
