/** OpenTelemetry spans, one per attempt. The package is loaded only if the program has registered a tracer provider. */
import { createRequire } from "node:module";
import type * as OpenTelemetry from "@opentelemetry/api";
import type { Outcome } from "../kernel/message.ts";
import type { Grant, GrantItem } from "../protocol/work.ts";

export interface Tracing {
  start(item: GrantItem): TaskSpan;
}

export interface TaskSpan {
  run<T>(code: () => T): T;
  /** Ends the span when the attempt ends. */
  end(outcome: Outcome): void;
}

const REGISTRY = Symbol.for("opentelemetry.js.api.1");

let loaded: typeof OpenTelemetry | null = null;

/** The tracing of a grant's attempts; null if the program has no tracer. */
export function tracingOf(grant: Grant): Tracing | null {
  const registry = (globalThis as { [REGISTRY]?: { trace?: unknown } })[REGISTRY];
  if (registry?.trace === undefined) return null;
  loaded ??= createRequire(import.meta.url)("@opentelemetry/api") as typeof OpenTelemetry;
  const api = loaded;
  const tracer = api.trace.getTracer("rondo");
  const parent = parentOf(api, grant.trace);
  return {
    start(item) {
      const attributes = {
        "rondo.execution": grant.execution,
        "rondo.workflow": grant.workflow,
        "rondo.phase": grant.phase,
        "rondo.visit": grant.visit,
        "rondo.handler": grant.handler,
        "rondo.do": grant.do,
        "rondo.task": item.number,
        "rondo.attempt": item.attempt,
      };
      const kind = api.SpanKind.CONSUMER;
      const span = tracer.startSpan(`rondo.task ${grant.use}`, { kind, attributes }, parent);
      const active = api.trace.setSpan(parent, span);
      return {
        run: (code) => api.context.with(active, code),
        end: (outcome) => endSpan(api, span, outcome),
      };
    },
  };
}

function endSpan(api: typeof OpenTelemetry, span: OpenTelemetry.Span, outcome: Outcome): void {
  span.setAttribute("rondo.status", outcome.status);
  switch (outcome.status) {
    case "done":
      span.setStatus({ code: api.SpanStatusCode.OK });
      break;
    case "suspended":
    case "cancelled":
      break;
    default:
      span.setStatus({ code: api.SpanStatusCode.ERROR, message: messageOf(outcome.payload) });
  }
  span.end();
}

function messageOf(payload: string): string {
  const { message } = (JSON.parse(payload) ?? {}) as { message?: unknown };
  return typeof message === "string" ? message : "";
}

/** The OpenTelemetry context of a W3C `traceparent`. If the text is invalid, a new trace begins. */
function parentOf(api: typeof OpenTelemetry, trace: string | null): OpenTelemetry.Context {
  const match = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(trace ?? "");
  if (match === null) return api.ROOT_CONTEXT;
  const [, traceId = "", spanId = "", flags = "00"] = match;
  const remote = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  if (!api.isSpanContextValid(remote)) return api.ROOT_CONTEXT;
  return api.trace.setSpanContext(api.ROOT_CONTEXT, remote);
}
