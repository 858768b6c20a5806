/** Copies the fields that are not undefined, for objects whose optional fields must be absent instead of undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  // This is on the hot path: a loop over the names makes no list of entries.
  const copy: Record<string, unknown> = {};
  for (const name in fields) if (fields[name] !== undefined) copy[name] = fields[name];
  return copy as never;
}
