/**
 * Finds the open command to which a receipt without `cmd_metadata.rondo` belongs. The command must have both hashes of the receipt, and
 * the receipt must be on the command's receipt topic. No other command with these hashes may have been open since the step began, because
 * the receipt could belong to that command. Submitted documents are found by their workflow name, which contains the hash. Other
 * workflows are indexed by hash when they are stored (`withCommandIndex`).
 */
import type { CommandView } from "../kernel/command/command-view.ts";
import { parseStored } from "../kernel/definition/parse-definition.ts";
import { compilePlan, type HandlerPlan, type Plan } from "../kernel/definition/plan.ts";
import { splitVersionedName } from "../kernel/definition/version-name.ts";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../protocol/work.ts";
import { decorate } from "../std/decorate.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { DAMAGED, OPEN_STATUSES, type Store, type StoredHead } from "../store/store.ts";
import { isSubmissionName, submissionName } from "./submission-definition.ts";

/** The fields of a receipt that identify its command. */
export interface CommandHashes {
  readonly cmdHash: string;
  readonly workflowHash: string;
  readonly receiptTopic: string;
}

export interface OpenCommandParts {
  readonly store: Pick<Store, "listHeads" | "listDocuments">;
  /** Reads a definition by its hash; null if there is none that this version can read. */
  readonly planOf: (hash: string) => Promise<Plan | null>;
  /** Asks the owner of an execution that has not ended for its state. */
  readonly lookAt: (execution: string) => Promise<SeenExecution>;
}

/** The commands of an execution, with the attempts that wait for a receipt. */
export interface SeenExecution {
  readonly commands: readonly Pick<CommandView, "phase" | "handler" | "startedAt" | "receiptedAt">[];
  readonly attempts: readonly OpenAttempt[];
}

/** An attempt that waits for a receipt. */
export interface OpenAttempt {
  /** The id of the attempt in wire form. */
  readonly attempt: string;
  readonly phase: string;
  readonly handler: string;
  readonly task: number;
}

/** The one attempt that matches, or whether no attempt or several attempts match. */
export type OpenCommand =
  | { readonly kind: "one"; readonly execution: string; readonly attempt: string }
  | { readonly kind: "none" }
  | { readonly kind: "several" };

/** A command that may have been sent. `from` is when its phase began; `until` is when its receipt arrived, or Infinity. */
interface Sent {
  readonly execution: string;
  readonly from: number;
  readonly until: number;
  /** The attempts of the command that wait for a receipt. */
  readonly attempts: readonly string[];
  /** Whether the command is sent only once; false if several tasks send commands with equal hashes. */
  readonly isSingle: boolean;
}

const KIND = "command-workflow";
const NAMES_MAX = 100;
const HEADS = 100;
/** The most open executions that are read. If there are more, the receipt counts as ambiguous. */
const HEADS_MAX = 1_000;
/** The most ended executions that are read for each status, the newest first. */
const ENDED_MAX = 1_000;
const ENDED_STATUSES = ["done", "failed", "cancelled", DAMAGED];
const HASH = /^[\da-f]{64}$/;

/**
 * Makes a function that finds the attempt of a receipt without `cmd_metadata.rondo`, or returns a rejection with the reason why there is
 * none.
 */
export function commandFinder(
  parts: OpenCommandParts,
): (receipt: Readonly<Record<string, unknown>>, topic: string) => Promise<ReportedAttempt | Rejection> {
  return async ({ cmd_metadata }, receiptTopic) => {
    const { cmd_hash, workflow_hash } = (cmd_metadata ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof cmd_hash !== "string" || typeof workflow_hash !== "string")
      return reject("invalid_input", `${NO_MARK} the receipt does not have both hashes`);
    const hashes = { cmdHash: cmd_hash, workflowHash: workflow_hash, receiptTopic };
    const found = await findOpenCommand(parts, hashes);
    const at = found.kind === "one" ? decodeAttempt(found.attempt) : null;
    if (at !== null) return at;
    return found.kind === "several"
      ? reject("conflict", `${NO_MARK} ${SEVERAL}`)
      : reject(
          "not_found",
          `${NO_MARK} no open command with the hashes of the receipt has this receipt topic`,
        );
  };
}

const NO_MARK = "`cmd_metadata.rondo` is missing, and";
const SEVERAL =
  "several commands with the hashes of the receipt were open at the same time, and the receipt may belong to any of them";

export async function findOpenCommand(parts: OpenCommandParts, hashes: CommandHashes): Promise<OpenCommand> {
  if (!HASH.test(hashes.workflowHash) || !HASH.test(hashes.cmdHash)) return { kind: "none" };
  const names = await namesOf(parts.store, hashes.workflowHash);
  const sent: Sent[] = [];
  let seen = 0;
  for await (const head of headsOf(parts.store, names, OPEN_STATUSES)) {
    if (++seen > HEADS_MAX) return { kind: "several" };
    const places = placesOf(await parts.planOf(head.hash), hashes);
    if (places.length > 0) sent.push(...sentOf(head.id, await parts.lookAt(head.id), places));
  }
  const [one, another] = sent.filter(({ attempts }) => attempts.length > 0);
  const attempt = one?.attempts[0];
  if (one === undefined || attempt === undefined) return { kind: "none" };
  if (another !== undefined || !one.isSingle) return { kind: "several" };
  const isRival = (other: Sent) =>
    // Within an execution, the commit of one command's receipt may send the next command, so their times may touch.
    other.execution === one.execution ? other.until > one.from : other.until >= one.from;
  if (sent.some((other) => other !== one && isRival(other))) return { kind: "several" };
  for await (const head of headsOf(parts.store, names, ENDED_STATUSES, ENDED_MAX)) {
    // It cannot be known which commands of a damaged execution were open.
    if ((head.finishedAt ?? Number.POSITIVE_INFINITY) < one.from) continue;
    if (placesOf(await parts.planOf(head.hash), hashes).length > 0) return { kind: "several" };
  }
  return { kind: "one", execution: one.execution, attempt };
}

/**
 * Wraps a store so that workflows are indexed by the hashes of their commands. Submitted workflows need no index: their names contain the
 * hash.
 */
export function withCommandIndex<S extends Pick<Store, "putDefinition" | "putDocument">>(store: S): S {
  const replaced: Pick<Store, "putDefinition"> = {
    putDefinition: async (name, hash, body) => {
      const workflowHash = isSubmissionName(name) ? null : commandsHashOf(body);
      // The index entry is stored before the definition, so that executions of the definition can be found from their start on.
      const { name: workflow } = splitVersionedName(name);
      if (workflowHash !== null) await store.putDocument(KIND, `${workflowHash} ${workflow}`, "{}");
      await store.putDefinition(name, hash, body);
    },
  };
  return decorate(store, replaced as Partial<S>);
}

async function namesOf(store: OpenCommandParts["store"], workflowHash: string): Promise<string[]> {
  const noted = await store.listDocuments(KIND, {
    after: `${workflowHash} `,
    before: `${workflowHash}!`,
    max: NAMES_MAX,
  });
  const names = noted.map(({ id }) => id.slice(workflowHash.length + 1));
  return [submissionName(workflowHash), ...names];
}

/** Lists executions of these workflows, newest first, at most `max` of each workflow and status. */
async function* headsOf(
  store: OpenCommandParts["store"],
  names: readonly string[],
  statuses: readonly string[],
  max = Number.POSITIVE_INFINITY,
): AsyncGenerator<StoredHead> {
  for (const workflow of names) {
    for (const status of statuses) {
      let before: number | null = null;
      for (let count = 0; count < max; ) {
        const heads: readonly StoredHead[] = await store.listHeads(
          { workflow, status },
          { before, max: HEADS },
        );
        yield* heads;
        count += heads.length;
        before = heads.at(-1)?.order ?? null;
        if (heads.length < HEADS) break;
      }
    }
  }
}

/** Returns the places (phase and handler) of a command in a workflow. Several places can have equal commands. */
function placesOf(plan: Plan | null, { cmdHash, workflowHash, receiptTopic }: CommandHashes): Place[] {
  return (plan?.commands ?? []).flatMap(({ phase, handler, command }) =>
    command.hash === cmdHash && command.workflowHash === workflowHash && command.receiptTopic === receiptTopic
      ? [{ phase: phase.name, handler: handler.name, isSingle: isSingle(handler) }]
      : [],
  );
}

interface Place {
  readonly phase: string;
  readonly handler: string;
  readonly isSingle: boolean;
}

function isSingle({ definition, enumerateUse }: HandlerPlan): boolean {
  return definition.tasks === undefined && enumerateUse === null;
}

/** Returns the commands of an execution at these places that may have been sent. */
function sentOf(execution: string, { commands, attempts }: SeenExecution, places: readonly Place[]): Sent[] {
  return places.flatMap(({ phase, handler, isSingle }) => {
    const isHere = (at: Pick<Place, "phase" | "handler">) => at.phase === phase && at.handler === handler;
    const command = commands.find(isHere);
    if (command === undefined || command.startedAt === null) return [];
    const open = attempts.filter((at) => at.task >= 0 && isHere(at)).map(({ attempt }) => attempt);
    const until = (open.length > 0 ? null : command.receiptedAt) ?? Number.POSITIVE_INFINITY;
    return [{ execution, from: command.startedAt, until, attempts: open, isSingle }];
  });
}

function commandsHashOf(body: string): string | null {
  if (!body.includes('"command"')) return null;
  const definition = parseStored(JSON.parse(body));
  return isRejection(definition) ? null : (compilePlan(definition).commands[0]?.command.workflowHash ?? null);
}
