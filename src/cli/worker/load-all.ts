/** Loads the workflows and topics of several files. */
import { referenceTo } from "../../sdk/check.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import type { HostedTopic } from "../../worker/handler-code.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import type { FileParts } from "../load/find-workflows.ts";
import { loadFile } from "../load/load-file.ts";

/** Loads the files. Throws if two files have different workflows or topics with the same name. */
export async function loadAll(files: readonly string[]): Promise<FileParts> {
  const workflows = new Map<string, { part: AnyWorkflow; file: string }>();
  const topics = new Map<string, { part: HostedTopic; file: string }>();
  for (const file of files) {
    const loaded = await loadFile(file);
    for (const part of loaded.workflows)
      addPart(workflows, `workflow named "${referenceTo(part)}"`, { part, file, key: referenceTo(part) });
    for (const part of loaded.topics)
      addPart(topics, `topic named "${part.topic}"`, { part, file, key: part.name });
  }
  return {
    workflows: Array.from(workflows.values(), ({ part }) => part),
    topics: Array.from(topics.values(), ({ part }) => part),
  };
}

function addPart<T>(
  parts: Map<string, { part: T; file: string }>,
  what: string,
  { part, file, key }: { part: T; file: string; key: string },
): void {
  const same = parts.get(key);
  if (same !== undefined && same.part !== part)
    throw new CliError(EXIT.usage, `${same.file} and ${file} both export a ${what}`, [
      `a name belongs to one ${what.split(" ")[0]}: rename one, or leave out one of the files`,
    ]);
  parts.set(key, { part, file });
}
