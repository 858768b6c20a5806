// Requests as spans, where the process has an OpenTelemetry SDK; a small one stands in for it here.
import { type Attributes, context, type Span, type SpanOptions, trace } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";
import { registerContexts } from "../fixtures/sdk/trace-context-fixture.ts";
import { serve, until } from "../fixtures/server/api-fixture.ts";
import { approval } from "../fixtures/server/api-workflows.ts";

interface Ended {
  readonly name: string;
  readonly attributes: Attributes;
  readonly isError: boolean;
}

const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";

/** Registers a provider that remembers the spans that have ended. */
function register(): Ended[] {
  const ended: Ended[] = [];
  let count = 0;
  const startSpan = (name: string, options: SpanOptions = {}): Span => {
    const attributes: Attributes = { ...options.attributes };
    const spanId = (++count).toString(16).padStart(16, "0");
    let isError = false;
    const span = {
      spanContext: () => ({ traceId: TRACE_ID, spanId, traceFlags: 1 }),
      setAttribute(key: string, value: string | number) {
        attributes[key] = value;
        return span;
      },
      setStatus() {
        isError = true;
        return span;
      },
      isRecording: () => true,
      end: () => void ended.push({ name, attributes, isError }),
    };
    return span as unknown as Span;
  };
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan, startActiveSpan: () => {} }) as never });
  registerContexts();
  return ended;
}

afterEach(() => {
  trace.disable();
  context.disable();
});

test("a request is a span with its route and status, and its start carries the span on", async () => {
  const api = await serve();
  api.rondo.serve(approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  const ended = register();
  await api.post("/v1/executions", { workflow: "approval", id: "a" });
  await api.get("/v1/executions/nowhere");
  expect(
    ended.map(({ name, attributes }) => [
      name,
      attributes["http.route"],
      attributes["http.response.status_code"],
    ]),
  ).toEqual([
    ["POST /v1/executions", "/v1/executions", 201],
    ["GET /v1/executions/{id}", "/v1/executions/{id}", 404],
  ]);
  expect(ended.every(({ isError }) => !isError)).toBe(true);
  const { body } = await api.get("/v1/executions/a/events?limit=1&detail=full");
  expect(body["data"]).toMatchObject([{ trace: `00-${TRACE_ID}-0000000000000001-01` }]);
});
