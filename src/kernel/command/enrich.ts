/** Enrichment: what a command says is put into its result, before that is journaled. Pure. */
import type { Json } from "../../std/json.ts";

/** One property that is put into results. */
export interface Enrichment {
  readonly key: string;
  readonly val: Json;
}

/** The result (a JSON text) with the properties in it; one that is no object becomes `{ value }` if there are any. */
export function enrich(result: string, properties: readonly Enrichment[]): string {
  const given = JSON.parse(result) as Json;
  // A receipt without a result: an empty one.
  const value = given === null ? {} : given;
  if (properties.length === 0) return given === null ? "{}" : result;
  const isObject = typeof value === "object" && !Array.isArray(value);
  const enriched: Record<string, Json> = isObject ? { ...(value as Record<string, Json>) } : { value };
  // Any key is a mere key, "__proto__" too.
  for (const { key, val } of properties)
    Object.defineProperty(enriched, key, {
      value: val,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  return JSON.stringify(enriched);
}
