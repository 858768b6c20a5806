/**
 * Makes the spans of phases, if the program has registered OpenTelemetry. The owner of an execution makes the span of a visit after
 * the commit that ends the visit, with the times of the journal. Each commit is handled once, so an end never gives two spans. If a
 * process stops between the commit and the span, the span is lost.
 */
import { NEXT } from "../../kernel/definition/definition.ts";
import type { FinalStatus, Recorded } from "../../kernel/event.ts";
import type { Execution, VisitSummary } from "../../kernel/execution.ts";
import { decodeReadable } from "../../kernel/journal/journal-entry.ts";
import { enumerationLinks } from "../../protocol/enumeration-spans.ts";
import { contextOf, hasTracer, SPAN_KIND, SPAN_STATUS, startSpan } from "../../std/open-telemetry.ts";
import type { ExecutionStore } from "../../store/store.ts";

/** A visit of a phase that has ended. */
export interface EndedPhase {
  readonly execution: string;
  readonly workflow: string;
  readonly project: string;
  readonly phase: string;
  readonly visit: number;
  readonly round: number;
  readonly status: FinalStatus;
  /** The W3C trace context of the execution's start. */
  readonly trace: string;
  /** The sequence number of the event with which the visit began. */
  readonly firstSeq: number;
  readonly endedAt: number;
  /** The handlers of the visit, without the handler that decides the next phase. */
  readonly handlers: VisitSummary["handlers"];
}

const NONE: readonly EndedPhase[] = [];

/** Returns the visits that these events end; none if the execution was not started within a tracing span. */
export function endedPhases(events: readonly Recorded[], execution: Execution | null): readonly EndedPhase[] {
  if (execution === null || execution.trace === null) return NONE;
  const { id, trace, project, round, plan, visited } = execution;
  return events.flatMap(({ event, at: endedAt }) => {
    if (event.kind !== "phase.finished") return [];
    const { phase, visit, status } = event;
    const summary = visited.find((one) => one.phase === phase && one.visit === visit);
    if (summary === undefined) return [];
    const { firstSeq } = summary;
    const handlers = summary.handlers.filter(({ name }) => name !== NEXT);
    const names = { execution: id, workflow: plan.definition.name, project };
    return [{ ...names, phase, visit, round, status, trace, firstSeq, endedAt, handlers }];
  });
}

/**
 * Makes the span of a visit that has ended. It reads from the journal when the visit began. If the journal is damaged, no span is
 * made.
 */
export async function makePhaseSpan(
  store: Pick<ExecutionStore, "readJournal">,
  ended: EndedPhase,
): Promise<void> {
  if (!hasTracer()) return;
  const { execution, phase, visit, firstSeq, handlers } = ended;
  const rows = await store.readJournal({ execution, from: firstSeq, to: firstSeq, rowsMax: 1 });
  const began = rows.flatMap(decodeReadable).find(({ seq }) => seq === firstSeq);
  if (began === undefined) return;
  const sum = (of: "total" | "done" | "failed" | "cancelled"): number =>
    handlers.reduce((count, handler) => count + handler[of], 0);
  const attributes = {
    "rondo.execution": execution,
    "rondo.workflow": ended.workflow,
    "rondo.project": ended.project,
    "rondo.phase": phase,
    "rondo.visit": visit,
    "rondo.round": ended.round,
    "rondo.status": ended.status,
    "rondo.tasks": sum("total"),
    "rondo.tasks.done": sum("done"),
    "rondo.tasks.failed": sum("failed"),
    "rondo.tasks.cancelled": sum("cancelled"),
  };
  const links = enumerationLinks(handlers.map(({ name: handler }) => ({ execution, phase, visit, handler })));
  const options = { kind: SPAN_KIND.internal, attributes, links, startTime: new Date(began.at) };
  const span = startSpan(`rondo.phase ${phase}`, options, contextOf(ended.trace));
  if (ended.status === "done") span.setStatus({ code: SPAN_STATUS.ok });
  if (ended.status === "failed") span.setStatus({ code: SPAN_STATUS.error });
  span.end(new Date(Math.max(began.at, ended.endedAt)));
}
