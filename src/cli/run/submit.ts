/** `rondo submit FILE`: submits the command workflows of a document; with --wait, prints their results. */
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { DEFAULT_PROJECT } from "../../kernel/definition/definition.ts";
import type {
  ProjectDocument,
  WorkflowDocument,
  WorkflowSubmission,
} from "../../protocol/command-document.ts";
import { CliError } from "../cli-error.ts";
import { stay, type WaitOptions } from "../executions/wait.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, printLine } from "../output/print.ts";
import { Screen } from "../progress/screen.ts";
import { readInput } from "../read-input.ts";
import { readJson } from "../read-json.ts";
import { type Flags, type Server, withServer } from "../server/find-server.ts";
import { checkTimeout } from "./follow-to-end.ts";
import {
  printPostOpFailures,
  type ReportedWorkflow,
  readEnded,
  withDeadLetters,
} from "./post-op-failures.ts";
import { serverCommand } from "./run-options.ts";

export type SubmitFlags = WaitOptions & Flags<"project" | "id", "wait">;

const LABEL_CHARS = 30;
const YAML = [".yaml", ".yml"];

/** Submits the workflows of a file. */
export async function submit(file: string, options: SubmitFlags): Promise<ExitCode> {
  checkTimeout(options.timeout);
  const body = withId(await readDocument(file), options.id);
  const project = options.project ?? projectOf(body) ?? DEFAULT_PROJECT;
  const screen = new Screen(process.stderr);
  const use = async (server: Server): Promise<ExitCode> => {
    const answer = await server.rondo.submit(project, body as WorkflowSubmission);
    const submitted = workflowsOf(answer, project);
    if (options.wait) return stayWith(server, submitted, { ...options, project, screen });
    const workflows: ReportedWorkflow[] = [];
    for (const one of submitted) workflows.push(await withDeadLetters(server.rondo, one));
    const isWhole = submitted[0] !== answer;
    if (options.json) printJson(isWhole ? { ...(answer as object), [project]: { workflows } } : workflows[0]);
    else for (const { workflow_id } of workflows) print(workflow_id);
    for (const one of workflows) {
      const { workflow_id, steps } = one;
      printLine(
        `${workflow_id}: ${steps.length} ${steps.length === 1 ? "command" : "commands"} at ${server.name}`,
      );
      printLine(`  to look at the workflow: ${serverCommand(["inspect", workflow_id], options)}`);
      printLine(`  to wait for the end of the workflow: ${serverCommand(["wait", workflow_id], options)}`);
      printPostOpFailures(one, screen, (letter) => retryOf(letter, options));
    }
    return EXIT.ok;
  };
  return withServer(options, use, { say: (line) => screen.print(line) });
}

/** Waits for the workflows one after the other. The first workflow that does not end as done decides the exit code. */
async function stayWith(
  { rondo, name }: Server,
  workflows: readonly WorkflowDocument[],
  { project, screen, ...options }: SubmitFlags & { readonly project: string; readonly screen: Screen },
): Promise<ExitCode> {
  let exit: ExitCode = EXIT.ok;
  for (const { workflow_id: id, steps } of workflows) {
    let document: ReportedWorkflow | null = null;
    const ended = await stay(rondo, id, {
      ...options,
      screen,
      where: `at ${name}`,
      wasStarted: true,
      document: async () => {
        document = await readEnded(rondo, project, id);
        return document;
      },
      labels: new Map(steps.map(({ cmd }, i) => [`step-${i}`, `${i} ${cmd.cmd_type.slice(0, LABEL_CHARS)}`])),
    });
    if (document !== null) printPostOpFailures(document, screen, (letter) => retryOf(letter, options));
    if (ended === EXIT.interrupted) return ended;
    if (exit === EXIT.ok) exit = ended;
  }
  return exit;
}

function retryOf(letter: number, options: SubmitFlags): string {
  return serverCommand(["dlq", "retry", String(letter)], options);
}

async function readDocument(file: string): Promise<unknown> {
  if (file === "-") return readInput("-", printLine);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new CliError(EXIT.notFound, `there is no file ${file}`, [], { cause });
    throw new CliError(EXIT.usage, `${file} cannot be read: ${message}`, [], { cause });
  }
  if (!YAML.includes(extname(file))) return readJson(text, file);
  return (await import("../load/read-definition.ts")).readYaml(text, file);
}

/** Sets the id of --id in a document. That is allowed only for a single workflow (`{ steps }`). */
function withId(body: unknown, id: string | undefined): unknown {
  if (id === undefined) return body;
  if (typeof body !== "object" || body === null || !("steps" in body))
    throw new CliError(EXIT.usage, "--id can be used only with a document of the form { steps }", [
      "in a project document each workflow has its own id: workflow_id, or its key in the map",
    ]);
  return { ...body, workflow_id: id };
}

/** Returns the project that a project document names. */
function projectOf(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null || "steps" in body) return undefined;
  return Object.keys(body).find((name) => name !== "next");
}

function workflowsOf(
  answer: WorkflowDocument | ProjectDocument,
  project: string,
): readonly WorkflowDocument[] {
  const page = (answer as ProjectDocument)[project];
  return typeof page === "object" && page !== null && "workflows" in page
    ? page.workflows
    : [answer as WorkflowDocument];
}
