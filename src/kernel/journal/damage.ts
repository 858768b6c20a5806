/** Damage: a stored row that cannot be read or has a wrong checksum. It affects only that row, never the whole node. */

export interface DamagePlace {
  /** The kind of row: journal, snapshots, letters, logs, documents, definitions, executions. */
  readonly table: string;
  /** The execution that the row belongs to; null if it belongs to none. */
  readonly execution: string | null;
  /** The sequence number of a journal row, or the name of another row. */
  readonly row: number | string;
}

/** A damaged row in the form in which views, lists and logs show it. */
export interface Damage extends DamagePlace {
  readonly why: string;
}

/** Thrown by decoders of stored data. It is caught where the work for one execution, or one request, begins. */
export class DamagedData extends Error {
  override name = "DamagedData";
  readonly damage: Damage;
  constructor(damage: Damage, options?: ErrorOptions) {
    super(describeDamage(damage), options);
    this.damage = damage;
  }
}

/** Describes damage in one sentence: which row, of which execution, and why it cannot be read. */
export function describeDamage({ table, execution, row, why }: Damage): string {
  const of = execution === null ? "" : ` of execution ${execution}`;
  return `${table} row ${row}${of} cannot be read: ${why}`;
}

/** Returns a hint that says what to do about an execution with damage in this kind of row. */
export function damageRemedy({ table }: Pick<Damage, "table">, id: string): string {
  return table === "definitions"
    ? `register the definition again (start a worker that has it), then: rondo audit --repair ${id}; or restore it from a backup or an export`
    : `restore the execution from a backup or an export, or drop it: rondo drop ${id}`;
}

/** Converts an error that was thrown while a row was decoded into a description of the damage. */
export function damageOf(thrown: unknown, place: DamagePlace): Damage {
  if (thrown instanceof DamagedData) return thrown.damage;
  return { ...place, why: thrown instanceof Error ? thrown.message : String(thrown) };
}

export const NO_TEXT = "the row is not valid UTF-8";
export const WRONG_CHECKSUM = "the checksum of the row is wrong, so it was changed after it was written";
