/** Writes the answer to a claim as JSON text by hand: stored texts are inserted without parsing. */
import { markCommand } from "../../protocol/command-wire.ts";
import { idempotencyPrefix } from "../../protocol/idempotency-key.ts";
import { compensationJson, type Grant, type GrantItem, type PhaseCounts } from "../../protocol/work.ts";
import type { AttemptRecord } from "./attempt-record.ts";
import type { ItemHistory } from "./item-history.ts";

/** An item that waits for a claim, ready to be sent. */
export interface ReadyItem {
  readonly grant: Grant;
  readonly item: GrantItem;
  readonly record: AttemptRecord;
  readonly writer: GrantWriter;
  /** The item as JSON; null for a task without a history, whose form depends on the claim. */
  readonly json: string | null;
}

/** Prepares an item for sending. `history`: the history of earlier attempts; null if there is none. */
export function readyItem(given: Omit<ReadyItem, "json">, history: ItemHistory | null): ReadyItem {
  const { grant, item, record, writer } = given;
  const isPlain = grant.do === "process" && history === null && item.compensates === undefined;
  return { grant, item, record, writer, json: isPlain ? null : writer.write(item, record, history) };
}

/** Writes the items of one grant. The fields that all items share are written once. */
export class GrantWriter {
  readonly #grant: Grant;
  readonly #leaseUntil: number;
  #shared: string | null = null;

  constructor(grant: Grant, leaseUntil: number) {
    this.#grant = grant;
    this.#leaseUntil = leaseUntil;
  }

  /** An item of `work`, with all its fields. */
  write(item: GrantItem, record: AttemptRecord, history: ItemHistory | null): string {
    const { id, token } = record;
    const { resume } = this.#grant;
    const head = `{"attempt":"${id}","token":"${token}","number":${item.number},"n":${item.attempt}`;
    const key = `${idempotencyPrefix(this.#grant)}${item.number}`;
    const task = `,"task":${this.#task(item, record)},"idempotencyKey":"${key}"`;
    const resumed =
      resume === null
        ? ""
        : `,"resume":{"count":${resume.count},"checksum":${resume.checksum},"last":${resume.last}}`;
    return `${head}${task}${this.#more(item, history)},${this.#sharedFields()}${resumed}}`;
  }

  /** A batch of tasks of this grant. */
  writeBatch(tasks: readonly string[]): string {
    const { round, epoch } = this.#grant;
    return `{${this.#sharedFields()},"round":${round},"epoch":${epoch},"tasks":[${tasks.join(",")}]}`;
  }

  #sharedFields(): string {
    if (this.#shared !== null) return this.#shared;
    const { execution, workflow, project, phase, visit, handler, use, version } = this.#grant;
    const { timeoutMs, heartbeatMs, batch, phases, trace } = this.#grant;
    const isDecision = this.#grant.do === "next" || this.#grant.do === "returns";
    const shared = {
      leaseUntil: this.#leaseUntil,
      do: this.#grant.do,
      execution,
      workflow,
      project,
      phase,
      visit,
      handler,
      use,
      version,
      timeoutMs,
      heartbeatMs,
      batch,
      ...(isDecision ? { phases } : {}),
      ...(trace === null ? {} : { traceparent: trace }),
    };
    this.#shared = JSON.stringify(shared).slice(1, -1);
    return this.#shared;
  }

  /** A command contains a mark. The receipt of the command on a topic must repeat this mark. */
  #task(item: GrantItem, { id, token }: AttemptRecord): string {
    const { command } = this.#grant;
    if (command === null || item.task === null) return item.task ?? "null";
    return markCommand(this.#grant, item, { id, token });
  }

  #more(item: GrantItem, history: ItemHistory | null): string {
    const { script } = this.#grant;
    const done = history === null || history.steps === "[]" ? "" : `,"steps":${history.steps}`;
    const tries = history === null || history.tries === "[]" ? "" : `,"tries":${history.tries}`;
    const children = history === null || history.children === "[]" ? "" : `,"children":${history.children}`;
    const times = history === null || history.times === "{}" ? "" : `,"times":${history.times}`;
    const steps = `${done}${tries}${children}${times}`;
    if (script === null) return `${steps}${compensationJson(item)}`;
    const { finished, state } = scriptProgress(this.#grant, item, history);
    return `${steps},"runs":${JSON.stringify(script.runs.slice(finished))},"finished":${finished},"state":${state}`;
  }
}

/** Where an attempt of a script begins: the number of finished runs, and the state before the next run, as JSON. */
function scriptProgress(
  { script }: Grant,
  item: GrantItem,
  history: ItemHistory | null,
): { readonly finished: number; readonly state: string } {
  const start = script?.state ?? item.task ?? "null";
  if (script?.resume === false || history === null || history.state === null)
    return { finished: 0, state: start };
  return { finished: history.finished, state: history.state };
}

/** The most characters of work in one answer. The rest waits for the next claim. */
const ANSWER_CHARS_MAX = 4 * 1_048_576;

/** An estimate of the characters of an item without a history, in addition to its task. */
const TASK_CHARS = 500;

export interface ClaimParts {
  readonly items: readonly ReadyItem[];
  readonly cancel: readonly string[];
  readonly lost: readonly string[];
  readonly drain: boolean;
  /** The nodes of the cluster; null for a single server. */
  readonly nodes: readonly string[] | null;
  /** Whether the worker reads batches. */
  readonly isBrief: boolean;
}

export function claimJson({ items, cancel, lost, drain, nodes, isBrief }: ClaimParts): string {
  const inputs = new Map<string, Grant>();
  for (const { grant } of items) inputs.set(grant.execution, grant);
  const { work, batches } = workTexts(items, isBrief);
  const input = [...inputs.values()].map((grant) => `${JSON.stringify(grant.execution)}:${grant.input}`);
  const phases = [...inputs.values()].map(
    (grant) => `${JSON.stringify(grant.execution)}:${phasesJson(grant)}`,
  );
  const told = `"cancel":${JSON.stringify(cancel)},"lost":${JSON.stringify(lost)}`;
  const list = nodes === null ? "" : `,"nodes":${JSON.stringify(nodes)}`;
  const end = `${list}${drain ? `,"drain":true` : ""}}`;
  const tasks = batches.length === 0 ? "" : `,"batches":[${batches.join(",")}]`;
  return `{"work":[${work.join(",")}]${tasks},"inputs":{${input.join(",")}},"phases":{${phases.join(",")}},${told}${end}`;
}

/** The items as JSON texts: tasks without a history in batches, if the worker reads batches. */
function workTexts(
  items: readonly ReadyItem[],
  isBrief: boolean,
): { readonly work: readonly string[]; readonly batches: readonly string[] } {
  const work: string[] = [];
  const batches = new Map<GrantWriter, string[]>();
  for (const { item, record, writer, json } of items) {
    if (json !== null || !isBrief) {
      work.push(json ?? writer.write(item, record, null));
      continue;
    }
    const task = `[${item.number},${item.attempt},${item.claim},"${record.token}",${item.task ?? "null"}]`;
    const others = batches.get(writer);
    if (others === undefined) batches.set(writer, [task]);
    else others.push(task);
  }
  return { work, batches: Array.from(batches, ([writer, tasks]) => writer.writeBatch(tasks)) };
}

/** The phases that were written last, and their text. */
let lastPhases: { readonly phases: PhaseCounts; readonly text: string } | null = null;
const visitTexts = new WeakMap<PhaseCounts[number], string>();

/** The results of earlier phases as JSON. All grants of a visit share it; most answers have grants of one visit, or of visits that differ. */
function phasesJson({ phases }: Grant): string {
  if (lastPhases?.phases !== phases) lastPhases = { phases, text: `[${phases.map(visitJson).join(",")}]` };
  return lastPhases.text;
}

/** The counts of one visit as JSON. All executions of a plan have the same objects for phases without a visit, so their texts are kept. */
function visitJson(counts: PhaseCounts[number]): string {
  if (counts.visit > 0) return countsJson(counts);
  let text = visitTexts.get(counts);
  if (text === undefined) {
    text = countsJson(counts);
    visitTexts.set(counts, text);
  }
  return text;
}

/** Writes counts as `JSON.stringify` does, in less time. The names of phases and handlers need no escapes. */
function countsJson({ phase, visit, firstSeq, lastSeq, handlers }: PhaseCounts[number]): string {
  let list = "";
  for (const { name, total, done, failed, value } of handlers)
    list += `${list === "" ? "" : ","}{"name":"${name}","total":${total},"done":${done},"failed":${failed},"value":${value === null ? "null" : JSON.stringify(value)}}`;
  return `{"phase":"${phase}","visit":${visit},"firstSeq":${firstSeq},"lastSeq":${lastSeq},"handlers":[${list}]}`;
}

/** How many items fit into one answer: at most `max`, within the size limit. */
export function countForAnswer(ready: readonly ReadyItem[], max: number): number {
  let count = 0;
  let chars = 0;
  let execution = "";
  while (count < ready.length && count < max && chars < ANSWER_CHARS_MAX) {
    const { item, json, grant } = ready[count++] as ReadyItem;
    chars += json?.length ?? TASK_CHARS + (item.task?.length ?? 0);
    if (grant.execution !== execution) chars += grant.input.length;
    execution = grant.execution;
  }
  return count;
}
