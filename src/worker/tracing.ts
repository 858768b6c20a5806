/**
 * Records spans and metrics of attempts, if the program has registered OpenTelemetry. The span of an attempt is under the span
 * of its execution's start, and the span of a step's try is under its attempt. If the enumeration of a task ran in this
 * process, the task's span links to the span of the enumeration.
 */
import type { Outcome } from "../kernel/message.ts";
import { enumerationLinks, rememberEnumeration } from "../protocol/enumeration-spans.ts";
import type { Grant, GrantItem } from "../protocol/work.ts";
import {
  type Attributes,
  activeContext,
  contextOf,
  hasMeter,
  hasTracer,
  inSpan,
  measure,
  SPAN_KIND,
  SPAN_STATUS,
  type Span,
  startSpan,
} from "../std/open-telemetry.ts";

export interface Tracing {
  start(item: GrantItem): TaskSpan;
  /** Runs a try of a step inside a span. */
  step<T>(name: string, attempt: number, code: () => T): T;
}

export interface TaskSpan {
  run<T>(code: () => T): T;
  /** Ends the span when the attempt ends. */
  end(outcome: Outcome): void;
}

/** Returns the tracing of a grant's attempts; null if the program has no tracer. */
export function tracingOf(grant: Grant): Tracing | null {
  if (!hasTracer()) return null;
  const parent = contextOf(grant.trace);
  return {
    start(item) {
      const options = {
        kind: SPAN_KIND.consumer,
        attributes: attributesOf(grant, item),
        links: grant.do === "enumerate" ? [] : enumerationLinks([grant]),
      };
      const span = startSpan(`rondo.task ${grant.use}`, options, parent);
      if (grant.do === "enumerate") rememberEnumeration(grant, span.spanContext());
      return {
        run: (code) => inSpan(span, parent, code),
        end: (outcome) => endSpan(span, outcome),
      };
    },
    step(name, attempt, code) {
      const under = activeContext();
      const attributes = {
        "rondo.execution": grant.execution,
        "rondo.step": name,
        "rondo.attempt": attempt,
      };
      const span = startSpan(`rondo.step ${name}`, { kind: SPAN_KIND.internal, attributes }, under);
      return inSpan(span, under, () => settled(span, code));
    },
  };
}

function attributesOf(grant: Grant, item: GrantItem): Attributes {
  return {
    "rondo.execution": grant.execution,
    "rondo.workflow": grant.workflow,
    "rondo.project": grant.project,
    "rondo.phase": grant.phase,
    "rondo.visit": grant.visit,
    "rondo.handler": grant.handler,
    "rondo.do": item.compensates === undefined ? grant.do : "compensate",
    "rondo.task": item.number,
    "rondo.attempt": item.attempt,
  };
}

/** Runs code inside the span, and ends the span when the code has ended. */
function settled<T>(span: Span, code: () => T): T {
  const fail = (thrown: unknown): never => {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    span.recordException?.(error);
    span.setStatus({ code: SPAN_STATUS.error, message: error.message });
    span.end();
    throw thrown;
  };
  const succeed = <R>(result: R): R => {
    span.setStatus({ code: SPAN_STATUS.ok });
    span.end();
    return result;
  };
  let result: T;
  try {
    result = code();
  } catch (thrown) {
    return fail(thrown);
  }
  return result instanceof Promise ? (result.then(succeed, fail) as T) : succeed(result);
}

function endSpan(span: Span, outcome: Outcome): void {
  span.setAttribute("rondo.status", outcome.status);
  switch (outcome.status) {
    case "done":
      span.setStatus({ code: SPAN_STATUS.ok });
      break;
    case "suspended":
      for (const wait of outcome.waits ?? (outcome.wait === undefined ? [] : [outcome.wait]))
        span.addEvent?.("rondo.wait", {
          "rondo.wait": wait.name,
          ...(wait.untilMs === undefined ? {} : { "rondo.until": new Date(wait.untilMs).toISOString() }),
        });
      break;
    case "cancelled":
      break;
    default: {
      const error = errorOf(outcome.payload);
      span.recordException?.(error);
      span.setStatus({ code: SPAN_STATUS.error, message: error.message });
    }
  }
  span.end();
}

function errorOf(payload: string): { name: string; message: string; stack?: string } {
  const { name, message, stack } = (JSON.parse(payload) ?? {}) as Partial<Record<string, unknown>>;
  return {
    name: typeof name === "string" ? name : "Error",
    message: typeof message === "string" ? message : "",
    ...(typeof stack === "string" ? { stack } : {}),
  };
}

const ATTEMPTS = {
  name: "rondo.attempts",
  description: "Attempts that have ended, by handler and status",
  unit: "{attempt}",
};
const DURATION = {
  name: "rondo.attempt.duration",
  description: "How long attempts ran, by handler",
  unit: "s",
};

/** Records an attempt that has ended in the metrics, if the program has a meter provider. */
export function measureAttempt(
  { workflow, use, do: kind }: Pick<Grant, "workflow" | "use" | "do">,
  ms: number,
  { status }: Pick<Outcome, "status">,
): void {
  // This returns early, because most programs have no meter provider and the function is called for every task.
  if (!hasMeter()) return;
  const attributes = { "rondo.workflow": workflow, "rondo.use": use, "rondo.do": kind };
  measure("counter", ATTEMPTS, 1, { ...attributes, "rondo.status": status });
  measure("histogram", DURATION, Math.max(0, ms) / 1_000, attributes);
}
