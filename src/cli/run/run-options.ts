/** The options of `rondo run`, and commands that continue an execution with the same options. */
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import type { HostedTopic } from "../../worker/handler-code.ts";
import type { ServerFlags } from "../server/find-server.ts";

export interface RunOptions extends ServerFlags {
  /** The input: JSON, `@file`, or `-` for standard input. */
  readonly input?: string;
  readonly id?: string;
  readonly workflow?: string;
  readonly project?: string;
  /** Whether to run scripts even if the outer layer of the sandbox is not available. */
  readonly unsafeNoJail?: boolean;
  /** Whether to wait until the execution of a named workflow ends. The execution of a file is always waited for. */
  readonly wait?: boolean;
  /** How long to wait. The execution stays open after that. */
  readonly timeout?: string;
  /** Whether to retry the execution of `id` if it has failed or was cancelled. */
  readonly retry?: boolean;
}

/** The command that continues an execution. */
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

/** A command about an execution at a server, with the flags with which the server was found. */
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
