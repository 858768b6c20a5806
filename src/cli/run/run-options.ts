/** What `rondo run` is asked for, and the command that goes on with an execution by the same options. */

export interface RunOptions {
  /** JSON, `@file`, or `-` for standard input. */
  readonly input?: string;
  readonly id?: string;
  readonly store?: string;
  /** Print the execution instead of its output. */
  readonly json?: boolean;
  readonly workflow?: string;
  /** Leave the execution alone after this time. */
  readonly timeout?: string;
  /** Open the next round if the execution of `id` has failed or was cancelled. */
  readonly retry?: boolean;
}

/** The command that goes on with an execution. */
export function goOnCommand(
  file: string,
  id: string,
  options: RunOptions,
  flags: readonly string[] = [],
): string {
  const words = ["rondo", "run", file, "--id", id];
  if (options.store !== undefined) words.push("--store", options.store);
  if (options.workflow !== undefined) words.push("--workflow", options.workflow);
  return [...words, ...flags].map(quote).join(" ");
}

function quote(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
