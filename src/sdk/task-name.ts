import { nameOf, noName, pointedAt, whyNoKey } from "../kernel/definition/task-name.ts";
import { Fatal } from "./errors.ts";

type Naming = string | ((task: unknown) => string | number);

/** The function that computes the key or identity of a task from a JSON Pointer or with user code; `what` is for errors. */
export function taskNaming(naming: Naming, what: string): (task: unknown) => string {
  const read = typeof naming === "function" ? naming : (task: unknown) => pointedAt(task, naming);
  const source = typeof naming === "function" ? "its function" : `"${naming}"`;
  return (task) => {
    const value = read(task);
    const name = nameOf(value);
    if (name === null) throw new Fatal(noName(value, what, source));
    const why = what === "key" ? whyNoKey(name) : null;
    if (why !== null) throw new Fatal(why);
    return name;
  };
}
