/** What `rondo run` is asked for, and the commands that go on with an execution by the same options. */

import type { AnyWorkflow } from "../../sdk/workflow.ts";
import type { HostedTopic } from "../../worker/handler-code.ts";
import type { ServerFlags } from "../server/find-server.ts";

export interface RunOptions extends ServerFlags {
  /** JSON, `@file`, or `-` for standard input. */
  readonly input?: string;
  readonly id?: string;
  readonly workflow?: string;
  readonly project?: string;
  /** Run scripts without the outer layer of their sandbox where it cannot be had. */
  readonly unsafeNoJail?: boolean;
  /** By name: stay until it ends. A file is always stayed with. */
  readonly wait?: boolean;
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
  return commandLine([...words, ...flags]);
}

/** A command about an execution at a server, by the flags that found it. */
export function serverCommand(words: readonly string[], flags: ServerFlags): string {
  const { url, store } = flags;
  return commandLine([
    "rondo",
    ...words,
    ...(url === undefined ? [] : ["--url", url]),
    ...(store === undefined ? [] : ["--store", store]),
  ]);
}

/** Words as they are typed into a shell. */
export function commandLine(words: readonly string[]): string {
  return words.map(quote).join(" ");
}

function quote(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export interface Wanted {
  /** As the user named it. */
  readonly file: string;
  readonly options: RunOptions;
  /** Undefined: none was given. */
  readonly input: { readonly value: unknown } | undefined;
  readonly workflows: readonly AnyWorkflow[];
  readonly topics: readonly HostedTopic[];
  readonly workflow: AnyWorkflow;
}

/** Names of all phases of a workflow. */
export function phaseNames({ definition }: AnyWorkflow): string[] {
  return (definition as { phases: readonly { name: string }[] }).phases.map(({ name }) => name);
}
