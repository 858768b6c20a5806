/**
 * Finds the open command to which a receipt without `cmd_metadata.rondo` belongs. The command must have both hashes of the receipt, and
 * the receipt must be on the command's receipt topic. No other command with these hashes may have been open since the step began, because
 * the receipt could belong to that command. A submitted document with a definition of its own is found by its workflow name, which contains the hash. The
 * others are found among the executions of all shapes that have the receipt topic, by the tag with the hash: open ones are all
 * compared, since the search index lags; for ended ones the index is used. Workflows in code are indexed by hash when they are
 * stored (`withCommandIndex`).
 */
import type { CommandView } from "../kernel/command/command-view.ts";
import { ownCommands } from "../kernel/command/own-command.ts";
import { parseStored } from "../kernel/definition/parse-definition.ts";
import { compilePlan, type HandlerPlan, type Plan } from "../kernel/definition/plan.ts";
import { splitVersionedName } from "../kernel/definition/version-name.ts";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../protocol/work.ts";
import { decorate } from "../std/decorate.ts";
import type { Json } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { type FoundHeads, indexNewest, listOrSearch } from "../store/search-heads.ts";
import { DAMAGED, type ExecutionSearch, OPEN_STATUSES, type Store, type StoredHead } from "../store/store.ts";
import {
  COMMANDS_TAG,
  isShapeName,
  isSubmissionName,
  SHAPE_PREFIX,
  submissionName,
} from "./submission-definition.ts";

/** The fields of a receipt that identify its command. */
export interface CommandHashes {
  readonly cmdHash: string;
  readonly workflowHash: string;
  readonly receiptTopic: string;
}

export interface OpenCommandParts {
  readonly store: ExecutionSearch & Pick<Store, "listDocuments" | "listDefinitions">;
  /** Reads a definition by its hash; null if there is none that this version can read. */
  readonly planOf: (hash: string) => Promise<Plan | null>;
  /** Asks the owner of an execution that has not ended for its state. */
  readonly inspect: (execution: string) => Promise<SeenExecution>;
}

/** The commands of an execution, with the attempts that wait for a receipt. */
export interface SeenExecution {
  readonly commands: readonly Pick<CommandView, "phase" | "handler" | "startedAt" | "receiptedAt">[];
  readonly attempts: readonly OpenAttempt[];
  /** The input of the execution. */
  readonly input?: Json;
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
const HEADS = 200;
/** The most open executions that are read. If there are more, the receipt counts as ambiguous. */
const HEADS_MAX = 1_000;
/** Up to so many open executions of shapes are all compared with the hash. If there are more, the search index is used. */
const LISTED_MAX = 1_000;
/** The most open executions that are compared because they may be missing from the index. If there are more, the receipt is ambiguous. */
const COMPARED_MAX = 50_000;
/** The most executions with the hash that are read from the index. If there are more, the receipt is ambiguous. */
const FOUND_MAX = 10_000;
/** The most shapes that are searched, and the most plans of shapes that are kept. */
const SHAPES_MAX = 5_000;
const PLANS_MAX = 500;
/** The most ended executions that are read for each status, the newest first. */
const ENDED_MAX = 1_000;
const ENDED_STATUSES = ["done", "failed", "cancelled", DAMAGED];
const HASH = /^[\da-f]{64}$/;

/**
 * Makes a function that finds the attempt of a receipt without `cmd_metadata.rondo`, or returns a rejection with the reason why there is
 * none.
 */
export function commandFinder(
  given: OpenCommandParts,
): (receipt: Readonly<Record<string, unknown>>, topic: string) => Promise<ReportedAttempt | Rejection> {
  const parts = { ...given, planOf: keptPlans(given.planOf) };
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
  const names = await namesOf(parts, hashes);
  if (names === null) return { kind: "several" };
  const sent: Sent[] = [];
  /** The steps of the command. Executions with the same workflow hash have the same commands. */
  let steps: ReadonlySet<number> = new Set();
  let seen = 0;
  for await (const head of openHeads(parts.store, names, hashes)) {
    if (head === null || ++seen > HEADS_MAX) return { kind: "several" };
    const plan = await parts.planOf(head.hash);
    if (plan === null) continue;
    const execution = plan.definition.commands === undefined ? null : await parts.inspect(head.id);
    const own = stepsOf(plan, execution?.input ?? {}, hashes);
    if (own.size > 0) steps = own;
    const places = placesOf(plan, own, hashes);
    if (places.length > 0) sent.push(...sentOf(head.id, execution ?? (await parts.inspect(head.id)), places));
  }
  const [one, another] = sent.filter(({ attempts }) => attempts.length > 0);
  const attempt = one?.attempts[0];
  if (one === undefined || attempt === undefined) return { kind: "none" };
  if (another !== undefined || !one.isSingle) return { kind: "several" };
  const isRival = (other: Sent) =>
    // Within an execution, the commit that settles one command may send the next one, so the one may end at the time at which the other begins.
    other.execution === one.execution ? other.until > one.from : other.until >= one.from;
  if (sent.some((other) => other !== one && isRival(other))) return { kind: "several" };
  for await (const head of endedHeads(parts.store, names, hashes)) {
    // It cannot be known which commands of a damaged execution were open.
    if ((head.finishedAt ?? Number.POSITIVE_INFINITY) < one.from || !mayHave(head, hashes)) continue;
    const plan = await parts.planOf(head.hash);
    if (plan === null) continue;
    const own = isShapeName(head.workflow) ? steps : stepsOf(plan, {}, hashes);
    if (placesOf(plan, own, hashes).length > 0) return { kind: "several" };
  }
  return { kind: "one", execution: one.execution, attempt };
}

/** Whether an execution can have the commands. Those of a shape have a tag with their hash. */
function mayHave({ workflow, tags }: StoredHead, { workflowHash }: CommandHashes): boolean {
  return !isShapeName(workflow) || tags[COMMANDS_TAG] === workflowHash;
}

/** The steps of an execution that have the command. */
function stepsOf(plan: Plan, input: Json, { cmdHash, workflowHash }: CommandHashes): Set<number> {
  const steps = new Set<number>();
  for (const [step, own] of ownCommands(plan, input).entries())
    if (own.hash === cmdHash && own.workflowHash === workflowHash) steps.add(step);
  return steps;
}

/** Keeps the plans of shapes, which have many executions. */
function keptPlans(planOf: OpenCommandParts["planOf"]): OpenCommandParts["planOf"] {
  const kept = new Map<string, Plan>();
  return async (hash) => {
    const known = kept.get(hash);
    if (known !== undefined) return known;
    const plan = await planOf(hash);
    if (plan?.definition.commands === undefined) return plan;
    if (kept.size >= PLANS_MAX) kept.clear();
    kept.set(hash, plan);
    return plan;
  };
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

/** The workflows whose executions can have the commands; null if there are too many shapes. */
async function namesOf(
  { store, planOf }: OpenCommandParts,
  { workflowHash, receiptTopic }: CommandHashes,
): Promise<string[] | null> {
  const noted = await store.listDocuments(KIND, {
    after: `${workflowHash} `,
    before: `${workflowHash}!`,
    max: NAMES_MAX,
  });
  const names = [submissionName(workflowHash), ...noted.map(({ id }) => id.slice(workflowHash.length + 1))];
  const listed = await store.listDefinitions({ after: SHAPE_PREFIX, max: SHAPES_MAX });
  const shapes = listed.filter(({ name }) => isShapeName(name));
  if (shapes.length === SHAPES_MAX) return null;
  for (const { name, hash } of shapes) {
    const plan = await planOf(hash);
    if (plan?.commands.some(({ command }) => command.receiptTopic === receiptTopic)) names.push(name);
  }
  return names;
}

/** Lists open executions that may have the commands. Yields null if there are too many to compare. */
async function* openHeads(
  store: OpenCommandParts["store"],
  names: readonly string[],
  hashes: CommandHashes,
): AsyncGenerator<StoredHead | null> {
  const shapes = names.filter(isShapeName);
  const own = names.filter((name) => !isShapeName(name));
  yield* headsOf(store, own, OPEN_STATUSES);
  if (shapes.length === 0) return;
  const few = await upTo(LISTED_MAX, headsOf(store, shapes, OPEN_STATUSES));
  if (few !== null) return yield* few.filter((head) => mayHave(head, hashes));
  await indexNewest(store);
  const after = await store.indexedTo();
  const late = await upTo(COMPARED_MAX, headsOf(store, shapes, OPEN_STATUSES, { after }));
  const indexed = await upTo(FOUND_MAX, taggedHeads(store, hashes, { before: after + 1 }));
  if (late === null || indexed === null) return yield null;
  yield* late.filter((head) => mayHave(head, hashes));
  yield* indexed.filter(({ status }) => (OPEN_STATUSES as readonly string[]).includes(status));
}

/** The heads that a list yields; null if they are more than `max`. */
async function upTo(max: number, list: AsyncGenerator<StoredHead>): Promise<StoredHead[] | null> {
  const heads: StoredHead[] = [];
  for await (const head of list) {
    if (heads.length === max) return null;
    heads.push(head);
  }
  return heads;
}

/** Lists the executions of shapes whose tag has the hash, as the search index finds them, newest first. */
async function* taggedHeads(
  store: OpenCommandParts["store"],
  { workflowHash }: CommandHashes,
  range: { readonly before: number | null },
): AsyncGenerator<StoredHead> {
  const tags = { [COMMANDS_TAG]: workflowHash };
  for (let before = range.before; ; ) {
    const page: FoundHeads = await listOrSearch(store, { filter: {}, tags, before, max: HEADS });
    yield* page.heads.filter(({ workflow }) => isShapeName(workflow));
    if (page.next === null) return;
    before = page.next;
  }
}

/** Lists executions of these workflows with an order above `after`, newest first, at most `max` of each workflow and status. */
async function* headsOf(
  store: OpenCommandParts["store"],
  names: readonly string[],
  statuses: readonly string[],
  { after = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = {},
): AsyncGenerator<StoredHead> {
  for (const workflow of names) {
    for (const status of statuses) {
      let before: number | null = null;
      for (let count = 0; count < max; ) {
        const heads: readonly StoredHead[] = await store.listHeads(
          { workflow, status },
          { before, max: HEADS },
        );
        yield* heads.filter(({ order }) => order > after);
        count += heads.length;
        before = heads.at(-1)?.order ?? null;
        if (heads.length < HEADS || (before ?? 0) <= after) break;
      }
    }
  }
}

/** Lists ended executions that may have the commands: the newest of each workflow, and those of shapes that are indexed. */
async function* endedHeads(
  store: OpenCommandParts["store"],
  names: readonly string[],
  hashes: CommandHashes,
): AsyncGenerator<StoredHead> {
  yield* headsOf(store, names, ENDED_STATUSES, { max: ENDED_MAX });
  if (!names.some(isShapeName)) return;
  await indexNewest(store);
  let count = 0;
  for await (const head of taggedHeads(store, hashes, { before: null })) {
    if (count++ === ENDED_MAX) return;
    if (ENDED_STATUSES.includes(head.status)) yield head;
  }
}

/** The places of the command in a workflow. Several places can have equal commands. */
function placesOf(plan: Plan, steps: ReadonlySet<number>, { receiptTopic }: CommandHashes): Place[] {
  return plan.commands.flatMap(({ phase, handler, command }) =>
    steps.has(command.step) && command.receiptTopic === receiptTopic
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
