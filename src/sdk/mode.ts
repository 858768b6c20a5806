/** The kinds of handlers without user code: which fields each kind adds to a handler spec, and the data that is made from the fields. */
import { checkFields, checkName, checkTimeout, invalid, storedCopy } from "./check.ts";

/** A kind of handler without user code. */
export interface Mode {
  readonly fields: readonly string[];
  /** Checks the fields of this kind and returns their data. The options that all handlers have are checked elsewhere. */
  readonly read: (spec: Given, at: string) => Given;
}

/** Unchecked fields of a spec, by name. */
export type Given = Readonly<Record<string, unknown>>;

/** The kind of handler that sends a command to a topic. */
export const COMMAND: Mode = {
  fields: ["cmd", "topic", "receiptTopic"],
  read({ cmd, topic, receiptTopic }, at) {
    return { command: storedCopy(cmd, `${at}.cmd`), topic, receiptTopic };
  },
};

/** The kind of handler that runs scripts in a sandbox. */
export const SCRIPT: Mode = {
  fields: ["runs", "state", "resume"],
  read({ runs, state, resume }, at) {
    if (!Array.isArray(runs) || runs.length === 0)
      throw invalid(`${at}.runs`, "must be a list of at least one run");
    runs.forEach((run, i) => checkRun(run, `${at}.runs[${i}]`));
    return { script: runs, state, resume };
  },
};

/** The kind of handler that starts executions of another workflow. */
export function childOf(workflow: unknown): Mode {
  return {
    fields: [],
    read: (_spec, at) => ({ workflow: checkName(workflow, `${at}.workflow`) }),
  };
}

function checkRun(run: unknown, at: string): void {
  const { name, expression, timeout } = checkFields(run, at, ["name", "expression", "timeout"]);
  checkName(name, `${at}.name`);
  if (typeof expression !== "string" || expression === "")
    throw invalid(`${at}.expression`, "must be JavaScript that evaluates to a function");
  if (timeout !== undefined) checkTimeout(timeout, `${at}.timeout`);
}
