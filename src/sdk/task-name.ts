import { Fatal } from "./errors.ts";

type Naming = string | ((task: unknown) => string | number);

/** The function that computes the key or identity of a task from a JSON Pointer or with user code; `what` is for errors. */
export function taskNaming(naming: Naming, what: string): (task: unknown) => string {
  const read = typeof naming === "function" ? naming : (task: unknown) => at(task, naming);
  const source = typeof naming === "function" ? "its function" : `"${naming}"`;
  return (task) => {
    const name = read(task);
    switch (typeof name) {
      case "string":
        return name;
      case "number":
      case "boolean":
        return String(name);
      default:
        throw new Fatal(
          `the ${what} of a task must be a text or a number, but ${source} gives ${show(name)}`,
        );
    }
  };
}

/** What a JSON Pointer (RFC 6901) points at; undefined if there is nothing. */
function at(value: unknown, pointer: string): unknown {
  let found: unknown = value;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

function show(value: unknown): string {
  return value === undefined ? "nothing" : value === null ? "null" : `a value of type ${typeof value}`;
}
