/**
 * Finds the open command that a receipt without any name of an attempt can only be of: the one that was sent, has no
 * outcome yet, and has both hashes. What was handed in as a document is found by its name, which is made of the hash;
 * workflows that were written otherwise are noted under theirs when they are stored (`noteCommandWorkflows`).
 */
import { parseStored } from "../kernel/parse-definition.ts";
import { compilePlan, type Plan } from "../kernel/plan.ts";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../protocol/work.ts";
import { isRejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import { isSubmissionName, submissionName } from "./submission-definition.ts";

/** What a receipt says of its command. */
export interface CommandHashes {
  readonly cmdHash: string;
  readonly workflowHash: string;
}

export interface OpenCommandParts {
  readonly store: Pick<Store, "listHeads" | "listDocuments">;
  /** A definition by its hash; null: there is none that this version can read. */
  readonly planOf: (hash: string) => Promise<Plan | null>;
  /** Open attempts of an execution, wherever its owner is. */
  readonly attemptsOf: (execution: string) => Promise<readonly OpenAttempt[]>;
}

/** An attempt whose receipt is awaited. */
export interface OpenAttempt {
  /** Its id, as wires have it. */
  readonly attempt: string;
  readonly phase: string;
  readonly handler: string;
  readonly task: number;
}

/** The one attempt, or why there is not exactly one. */
export type OpenCommand =
  | { readonly kind: "one"; readonly execution: string; readonly attempt: string }
  | { readonly kind: "none" }
  | { readonly kind: "several" };

const KIND = "command-workflow";
const NAMES_MAX = 100;
const HEADS = 100;
/** Executions that are looked at; where there are more, nobody could tell which one is meant. */
const HEADS_MAX = 1_000;
const OPEN_STATUSES = ["running", "paused", "cancelling"];
const HASH = /^[\da-f]{64}$/;

/** Gives the attempt that a receipt without the name of one is of; null: there is none, or one could not be told from others. */
export function commandFinder(
  parts: OpenCommandParts,
): (receipt: Readonly<Record<string, unknown>>) => Promise<ReportedAttempt | null> {
  return async ({ cmd_metadata }) => {
    const { cmd_hash, workflow_hash } = (cmd_metadata ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof cmd_hash !== "string" || typeof workflow_hash !== "string") return null;
    const found = await findOpenCommand(parts, { cmdHash: cmd_hash, workflowHash: workflow_hash });
    return found.kind === "one" ? decodeAttempt(found.attempt) : null;
  };
}

/** The open command with these hashes. */
export async function findOpenCommand(parts: OpenCommandParts, hashes: CommandHashes): Promise<OpenCommand> {
  if (!HASH.test(hashes.workflowHash) || !HASH.test(hashes.cmdHash)) return { kind: "none" };
  let found: OpenCommand = { kind: "none" };
  let seen = 0;
  for await (const head of openHeads(parts.store, hashes.workflowHash)) {
    if (++seen > HEADS_MAX) return { kind: "several" };
    const plan = await parts.planOf(head.hash);
    const places = plan === null ? [] : placesOf(plan, hashes).filter(({ phase }) => phase === head.phase);
    if (places.length === 0) continue;
    for (const { attempt, phase, handler, task } of await parts.attemptsOf(head.id)) {
      const isIt = task >= 0 && places.some((at) => at.phase === phase && at.handler === handler);
      if (!isIt) continue;
      if (found.kind === "one") return { kind: "several" };
      found = { kind: "one", execution: head.id, attempt };
    }
  }
  return found;
}

/** Has every workflow with commands noted under their hash when it is stored; those named by it need no note. */
export function noteCommandWorkflows(store: Pick<Store, "putDefinition" | "putDocument">): void {
  const put = store.putDefinition.bind(store);
  store.putDefinition = async (name, hash, body) => {
    const workflowHash = isSubmissionName(name) ? null : commandsHashOf(body);
    // Before the definition itself: an execution of it can then be found from its first moment on.
    if (workflowHash !== null) await store.putDocument(KIND, `${workflowHash} ${name}`, "{}");
    await put(name, hash, body);
  };
}

async function* openHeads(
  store: OpenCommandParts["store"],
  workflowHash: string,
): AsyncGenerator<{ readonly id: string; readonly hash: string; readonly phase: string | null }> {
  const noted = await store.listDocuments(KIND, {
    after: `${workflowHash} `,
    before: `${workflowHash}!`,
    max: NAMES_MAX,
  });
  const names = noted.map(({ id }) => id.slice(workflowHash.length + 1));
  for (const workflow of [submissionName(workflowHash), ...names]) {
    for (const status of OPEN_STATUSES) {
      let before: number | null = null;
      for (;;) {
        const heads: Awaited<ReturnType<Store["listHeads"]>> = await store.listHeads(
          { workflow, status },
          { before, max: HEADS },
        );
        yield* heads;
        before = heads.at(-1)?.order ?? null;
        if (heads.length < HEADS) break;
      }
    }
  }
}

/** Where a workflow has the command: equal ones can be at several places. */
function placesOf(
  plan: Plan,
  { cmdHash, workflowHash }: CommandHashes,
): { phase: string; handler: string }[] {
  return plan.commands.flatMap(({ phase, handler, command }) =>
    command.hash === cmdHash && command.workflowHash === workflowHash
      ? [{ phase: phase.name, handler: handler.name }]
      : [],
  );
}

function commandsHashOf(body: string): string | null {
  if (!body.includes('"command"')) return null;
  const definition = parseStored(JSON.parse(body));
  return isRejection(definition) ? null : (compilePlan(definition).commands[0]?.command.workflowHash ?? null);
}
