/** What `rondo run FILE` is about: the file's workflows and the one to start. */
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import type { HostedTopic } from "../../worker/handler-code.ts";
import type { RunOptions } from "./run-options.ts";

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
