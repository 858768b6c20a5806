/** The options of `rondo run`, and commands that continue an execution with the same options. */
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import type { HostedTopic } from "../../worker/handler-code.ts";
import type { Flags, ServerFlags } from "../server/find-server.ts";

export type RunOptions = ServerFlags &
  Flags<"input" | "id" | "workflow" | "project" | "timeout", "unsafeNoJail" | "wait" | "retry">;

/** Returns the command that continues an execution. */
export function goOnCommand(
  file: string,
  id: string,
  options: RunOptions,
  flags: readonly string[] = [],
): string {
  const words = ["rondo", "run", file, "--id", id];
  if (options.store !== undefined) words.push("--store", options.store);
  if (options.workflow !== undefined) words.push("--workflow", options.workflow);
  return commandLine([...words, ...flags]);
}

/** Returns a command about an execution at a server, with the flags by which the server was found. */
export function serverCommand(words: readonly string[], flags: ServerFlags): string {
  const { url, store } = flags;
  return commandLine([
    "rondo",
    ...words,
    ...(url === undefined ? [] : ["--url", url]),
    ...(store === undefined ? [] : ["--store", store]),
  ]);
}

/** Joins words to a shell command, quoted where needed. */
export function commandLine(words: readonly string[]): string {
  return words.map(quote).join(" ");
}

function quote(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export interface Wanted {
  /** The file as the user named it. */
  readonly file: string;
  readonly options: RunOptions;
  /** The input; undefined if none was given. */
  readonly input: { readonly value: unknown } | undefined;
  readonly workflows: readonly AnyWorkflow[];
  readonly topics: readonly HostedTopic[];
  readonly workflow: AnyWorkflow;
}

/** Names of all phases of a workflow. */
export function phaseNames({ definition }: AnyWorkflow): string[] {
  return (definition as { phases: readonly { name: string }[] }).phases.map(({ name }) => name);
}
