import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { unwrap } from "../../src/std/rejection.ts";

/** A workflow as data, whose handlers are served elsewhere. */
export function described(name: string, phases: readonly unknown[]) {
  const definition = unwrap(parseDefinition({ rondo: 1, name, phases }));
  return { name, definition, handlers: [], inputSchema: undefined, children: [] } as never;
}
