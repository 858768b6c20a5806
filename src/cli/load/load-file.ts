/**
 * Loads the workflows of a file argument. An argument that has neither a known file extension nor a slash is the name of a workflow at a
 * server.
 */
import { stat } from "node:fs/promises";
import { extname, resolve } from "node:path";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import type { FileParts } from "./find-workflows.ts";

const CODE = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"];
const DATA = [".json", ".yaml", ".yml"];

/** Whether an argument names a file; anything else is the name of a workflow. */
export function isFileName(target: string): boolean {
  return /[/\\]/.test(target) || [...CODE, ...DATA].includes(extname(target));
}

/** Loads the workflows and topics of a file. The file must have at least one. */
export async function loadFile(file: string): Promise<FileParts> {
  const extension = extname(file);
  const path = resolve(file);
  const found = await stat(path).catch(() => null);
  if (found === null)
    throw new CliError(EXIT.notFound, `there is no file ${file}`, path === file ? [] : [`looked at ${path}`]);
  if (!found.isFile())
    throw new CliError(EXIT.usage, `${file} is not a file, so it cannot be loaded`, [
      "give the name of a file in this directory",
    ]);
  if (DATA.includes(extension)) {
    const { readDefinition } = await import("./read-definition.ts");
    return { workflows: [await readDefinition(path, file)], topics: [] };
  }
  if (!CODE.includes(extension))
    throw new CliError(EXIT.usage, `${file} is neither code nor a definition, by its extension`, [
      `the name of a file to run ends in ${[...CODE, ...DATA].join(" ")}`,
    ]);
  const [{ loadModule }, { findParts }] = await Promise.all([
    import("./load-module.ts"),
    import("./find-workflows.ts"),
  ]);
  return findParts(await loadModule(path), file);
}
