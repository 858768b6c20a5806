/** Writes the answer to a claim as JSON text by hand: stored texts are inserted without parsing. */
import { markCommand } from "../../protocol/command-wire.ts";
import { idempotencyPrefix } from "../../protocol/idempotency-key.ts";
import { compensationJson, type Grant, type GrantItem } from "../../protocol/work.ts";
import type { AttemptRecord } from "./attempt-record.ts";
import type { ItemHistory } from "./item-history.ts";

/** An item that waits for a claim, ready to be sent. */
export interface ReadyItem {
  readonly record: AttemptRecord;
  readonly grant: Grant;
  readonly json: string;
}

export class GrantWriter {
  readonly #grant: Grant;
  readonly #key: string;
  readonly #tail: string;

  constructor(grant: Grant, leaseUntil: number) {
    const { execution, workflow, project, phase, visit, handler, use, version } = grant;
    const { timeoutMs, heartbeatMs, batch, resume, phases, trace } = grant;
    this.#grant = grant;
    this.#key = idempotencyPrefix(grant);
    const tail = {
      leaseUntil,
      do: grant.do,
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
      ...(grant.do === "next" || grant.do === "returns" ? { phases } : {}),
      ...(trace === null ? {} : { traceparent: trace }),
    };
    const more =
      resume === null
        ? ""
        : `,"resume":{"count":${resume.count},"checksum":${resume.checksum},"last":${resume.last}}`;
    this.#tail = `,${JSON.stringify(tail).slice(1, -1)}${more}}`;
  }

  write(item: GrantItem, record: AttemptRecord, history: ItemHistory | null): string {
    const { id, token } = record;
    const head = `{"attempt":"${id}","token":"${token}","number":${item.number},"n":${item.attempt}`;
    const task = `,"task":${this.#task(item, record)},"idempotencyKey":"${this.#key}${item.number}"`;
    return `${head}${task}${this.#more(item, history)}${this.#tail}`;
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

export interface ClaimParts {
  readonly items: readonly ReadyItem[];
  readonly cancel: readonly string[];
  readonly lost: readonly string[];
  readonly drain: boolean;
  /** The nodes of the cluster; null for a single server. */
  readonly nodes: readonly string[] | null;
}

export function claimJson({ items, cancel, lost, drain, nodes }: ClaimParts): string {
  const inputs = new Map<string, Grant>();
  for (const { grant } of items) inputs.set(grant.execution, grant);
  const work: string[] = [];
  for (const { json } of items) work.push(json);
  const input = [...inputs.values()].map((grant) => `${JSON.stringify(grant.execution)}:${grant.input}`);
  const phases = [...inputs.values()].map(
    (grant) => `${JSON.stringify(grant.execution)}:${phasesJson(grant)}`,
  );
  const told = `"cancel":${JSON.stringify(cancel)},"lost":${JSON.stringify(lost)}`;
  const list = nodes === null ? "" : `,"nodes":${JSON.stringify(nodes)}`;
  const end = `${list}${drain ? `,"drain":true` : ""}}`;
  return `{"work":[${work.join(",")}],"inputs":{${input.join(",")}},"phases":{${phases.join(",")}},${told}${end}`;
}

const phasesTexts = new WeakMap<object, string>();

/** The results of earlier phases as JSON, written once per visit: all grants of a visit share the text. */
function phasesJson({ phases }: Grant): string {
  let text = phasesTexts.get(phases);
  if (text === undefined) {
    text = JSON.stringify(phases);
    phasesTexts.set(phases, text);
  }
  return text;
}

/** How many items fit into one answer: at most `max`, within the size limit. */
export function countForAnswer(ready: readonly ReadyItem[], max: number): number {
  let count = 0;
  let chars = 0;
  let execution = "";
  while (count < ready.length && count < max && chars < ANSWER_CHARS_MAX) {
    const { json, grant } = ready[count++] as ReadyItem;
    chars += json.length;
    if (grant.execution !== execution) chars += grant.input.length;
    execution = grant.execution;
  }
  return count;
}
