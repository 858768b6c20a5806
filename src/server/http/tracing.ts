/** Spans of requests, where the process has an OpenTelemetry SDK; without one this costs next to nothing. */
import type { IncomingMessage } from "node:http";
import { context, propagation, type Span, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";

const TRACEPARENT = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/;

/** Runs a request inside a span; `run` gives the status that was sent. */
export async function inSpan(
  incoming: IncomingMessage,
  route: { readonly method: string; readonly path: string },
  run: () => Promise<number>,
): Promise<number> {
  const parent = propagation.extract(context.active(), incoming.headers);
  const span = trace.getTracer("rondo").startSpan(
    `${route.method.toUpperCase()} ${route.path}`,
    {
      kind: SpanKind.SERVER,
      attributes: { "http.request.method": route.method.toUpperCase(), "http.route": route.path },
    },
    parent,
  );
  if (!span.isRecording()) return run();
  try {
    const status = await context.with(trace.setSpan(parent, span), run);
    span.setAttribute("http.response.status_code", status);
    if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    return status;
  } finally {
    span.end();
  }
}

/** The trace context to carry on: the request's span where it is recorded, else what the client sent. */
export function traceOf(incoming: IncomingMessage): string | null {
  const span: Span | undefined = trace.getSpan(context.active());
  if (span?.isRecording() === true) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  }
  const header = incoming.headers["traceparent"];
  return typeof header === "string" && TRACEPARENT.test(header) ? header : null;
}
