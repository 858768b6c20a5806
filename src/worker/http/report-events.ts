/** Converts a worker's reports to events of the worker protocol. An event is a JSON text without its number, together with its attempt. */
import type { Items } from "../../kernel/definition/task-name.ts";
import type { Outcome } from "../../kernel/message.ts";
import { attemptPrefix } from "../../protocol/attempt-id.ts";
import { STREAM_LEVEL } from "../../protocol/stream-piece.ts";
import type { Report, ReportedLine } from "../../protocol/work.ts";

/**
 * Called for each event of a report, with the attempt's id, the JSON text that follows the event's number, and whether the
 * event is the receipt.
 */
export type OnEvent = (attempt: string, rest: string, isReceipt: boolean) => void;

/** Calls `take` for each event of a report. `hasFields` says whether the server accepts the structured fields of log lines. */
export function eachEvent(report: Report, take: OnEvent, hasFields = true): void {
  const prefix = attemptPrefix(report);
  const idOf = ({ task, attempt, claim }: { task: number; attempt: number; claim: number }): string =>
    `${prefix}${task}.${attempt}.${claim}.${report.epoch}`;
  switch (report.kind) {
    case "accepted":
    case "started":
      for (const attempt of report.attempts) take(idOf(attempt), `"kind":"${report.kind}"}`, false);
      return;
    case "receipts":
      for (const receipt of report.receipts)
        take(idOf(receipt), receiptText(receipt.outcome, receipt.ms), true);
      return;
    case "enumeration":
      return take(idOf({ ...report, task: -1 }), receiptText(report.outcome, report.ms), true);
    case "page": {
      const text = `"kind":"page","from":${report.from},${itemsText(report)}}`;
      return take(idOf({ ...report, task: -1 }), text, false);
    }
    case "step": {
      const { name, map, answers, result } = report;
      const more = JSON.stringify({ name, map, answers });
      return take(idOf(report), `"kind":"step","result":${result},${more.slice(1)}`, false);
    }
    case "step.retrying":
    case "step.failed": {
      const { kind, name, tries, error } = report;
      const more = kind === "step.failed" ? { name, tries } : { name, tries, forMs: report.forMs };
      const text = `"kind":"${kind.replace(".", "_")}",${JSON.stringify(more).slice(1, -1)},"error":${error}}`;
      return take(idOf(report), text, false);
    }
    case "noted": {
      const { times, failures } = report;
      return take(idOf(report), `"kind":"noted",${JSON.stringify({ times, failures }).slice(1)}`, false);
    }
    case "published":
      return take(idOf(report), `"kind":"published","values":${JSON.stringify(report.values)}}`, false);
    case "child": {
      const { name, workflow, input, detached, mapped } = report;
      const more = JSON.stringify({ name, workflow, detached, mapped });
      return take(idOf(report), `"kind":"child","input":${input},${more.slice(1)}`, false);
    }
    case "run": {
      const { name, index, state, oversized, stats } = report;
      const more = JSON.stringify({ run: name, index, oversized, stats: whole(stats) }).slice(1);
      return take(idOf(report), `"kind":"run_finished","state":${state},${more}`, false);
    }
    case "run.started":
      return take(idOf(report), `"kind":"run_started","run":${JSON.stringify(report.name)}}`, false);
    case "run.crashed": {
      const { name, message, stats } = report;
      const more = JSON.stringify({ run: name, message, ...(stats === null ? {} : { stats: whole(stats) }) });
      return take(idOf(report), `"kind":"run_crashed",${more.slice(1)}`, false);
    }
    case "logs":
      for (const line of report.lines) take(idOf(report), lineText(line, hasFields), false);
      return;
  }
}

/** The number of attempts in a report, which is also the number of its verdicts. */
export function attemptCount(report: Report): number {
  if (report.kind === "receipts") return report.receipts.length;
  return 1;
}

/** Writes tasks with their keys and identities as JSON fields. The tasks are JSON texts already. */
function itemsText({ tasks, keys, identities, afters = null }: Items): string {
  const names = Object.entries({ keys, identities, afters }).map(([name, list]) =>
    list === null ? "" : `,"${name}":${JSON.stringify(list)}`,
  );
  return `"tasks":[${tasks.join(",")}]${names.join("")}`;
}

function lineText({ at, level, text, run, fields }: ReportedLine, hasFields: boolean): string {
  // A piece of a stream is kept as a log line: its own fields are in `fields`, and its text is a list of chunks.
  if (level === STREAM_LEVEL)
    return `"kind":"chunks","chunks":${text},"at":${at},${(fields ?? "{}").slice(1)}`;
  const given = fields === undefined || !hasFields ? "" : `"fields":${fields},`;
  return `"kind":"log",${given}${JSON.stringify({ text, level, at, run }).slice(1)}`;
}

/** Writes a receipt as JSON text. Results are JSON texts already. Errors are parsed, because the wire format adds flags to them. */
function receiptText(outcome: Outcome, ms: number): string {
  const { status, payload, fatal, retryAfterMs, total, wait, waits, adds, continueAs } = outcome;
  const head = `"kind":"receipt","status":"${status}","stats":{"durationMs":${Math.max(0, Math.round(ms))}}`;
  if (status === "done") {
    const added = adds === undefined ? "" : `,"adds":{${itemsText(adds)}}`;
    const continues = continueAs === undefined ? "" : `,"continueAs":${continueAs}`;
    return `${head},"result":${payload}${total === undefined ? "" : `,"total":${total}`}${added}${continues}}`;
  }
  if (status === "suspended") {
    if (waits === undefined) return `${head},"wait":${JSON.stringify(wait)}}`;
    const list = waits.map(({ match, ...one }) => {
      const text = JSON.stringify(one);
      return match === undefined ? text : `${text.slice(0, -1)},"match":${match}}`;
    });
    return `${head},"waits":[${list.join(",")}]}`;
  }
  return `${head},"error":${JSON.stringify({ ...errorOf(payload), fatal, retryAfterMs })}}`;
}

function errorOf(payload: string): object {
  const error = JSON.parse(payload) as unknown;
  if (typeof error !== "object" || error === null) return { name: "Error", message: payload };
  const { message } = error as { message?: unknown };
  return { ...error, message: typeof message === "string" ? message : payload };
}

function whole({ durationMs, memoryBytes }: { durationMs: number; memoryBytes: number }): object {
  return { durationMs: Math.round(durationMs), memoryBytes: Math.round(memoryBytes) };
}
