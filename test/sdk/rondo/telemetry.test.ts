// OpenTelemetry with the public SDK's API and a collector made here: parents, links, retries, waits, steps and metrics.
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type Context,
  type ContextManager,
  context as contextApi,
  type Link,
  metrics,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { flow, openRondo, workflow } from "rondo";
import { connect } from "rondo/client";
import { afterEach, expect, test } from "vitest";
import { open } from "../../fixtures/sdk/open-rondo-fixture.ts";

interface Collected {
  readonly name: string;
  readonly attributes: Attributes;
  readonly links: readonly Link[];
  readonly events: string[];
  readonly exceptions: string[];
  readonly id: string;
  readonly parent: string | undefined;
  readonly traceId: string;
  status: SpanStatusCode | undefined;
}

/** Registers a provider whose spans are collected when they end, and a meter that keeps its values. */
function collect(): { spans: Collected[]; values: [name: string, value: number, attributes: Attributes][] } {
  const spans: Collected[] = [];
  const values: [string, number, Attributes][] = [];
  let count = 0;
  const startSpan = (name: string, options: SpanOptions = {}, under: Context = ROOT_CONTEXT): Span => {
    const above = trace.getSpanContext(under);
    const id = (++count).toString(16).padStart(16, "0");
    const collected: Collected = {
      ...{
        name,
        attributes: { ...options.attributes },
        links: options.links ?? [],
        events: [],
        exceptions: [],
        id,
      },
      ...{ parent: above?.spanId, traceId: above?.traceId ?? id.padStart(32, "a"), status: undefined },
    };
    const span = {
      spanContext: () => ({ traceId: collected.traceId, spanId: id, traceFlags: 1 }),
      setAttribute: (key: string, value: string) => Object.assign(collected.attributes, { [key]: value }),
      addEvent: (event: string) => collected.events.push(event),
      recordException: (error: Error) => collected.exceptions.push(`${error.name}: ${error.message}`),
      setStatus: ({ code }: { code: SpanStatusCode }) => {
        collected.status = code;
      },
      isRecording: () => true,
      end: () => spans.push(collected),
    };
    return span as unknown as Span;
  };
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) as never });
  const instrument = (name: string) => {
    const keep = (value: number, attributes: Attributes) => values.push([name, value, attributes]);
    return { add: keep, record: keep };
  };
  metrics.setGlobalMeterProvider({
    getMeter: () => ({ createCounter: instrument, createHistogram: instrument }) as never,
  });
  const storage = new AsyncLocalStorage<Context>();
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, run, self, ...args) => storage.run(active, () => run.apply(self, args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  contextApi.setGlobalContextManager(manager);
  return { spans, values };
}

afterEach(() => {
  trace.disable();
  contextApi.disable();
  metrics.disable();
});

/** Runs code inside a span of the program. */
async function inSpan<T>(
  name: string,
  run: () => Promise<T>,
): Promise<{ result: T; id: string; traceId: string }> {
  const span = trace.getTracer("program").startSpan(name);
  const { spanId: id, traceId } = span.spanContext();
  const result = await contextApi.with(trace.setSpan(contextApi.active(), span), run);
  span.end();
  return { result, id, traceId };
}

let attempts = 0;
const fan = workflow<{ n: number }>({ name: "fan" })
  .phase("work", {
    enumerate: ({ input }) => Array.from({ length: input.n }, (_, i) => i),
    async process({ task, step }) {
      await step("inner", () => task);
      if (task === 0 && ++attempts === 1) throw new TypeError("once");
      return task;
    },
    retry: { attempts: 2, min: 1 },
  })
  .returns(({ phases }) => phases.work.count);

test("the caller's span is the parent, tasks link to their enumeration, retries and steps are visible", async () => {
  attempts = 0;
  const rondo = await open([fan]);
  const { spans, values } = collect();
  const { result, id, traceId } = await inSpan("caller", () => rondo.run(fan, { n: 2 }));
  expect(result).toBe(2);
  const tasks = spans.filter(({ name }) => name === "rondo.task fan.work");
  expect(tasks.every((span) => span.parent === id && span.traceId === traceId)).toBe(true);
  const [enumeration] = tasks.filter(({ attributes }) => attributes["rondo.do"] === "enumerate");
  const processed = tasks.filter(({ attributes }) => attributes["rondo.do"] === "process");
  expect(processed).toHaveLength(3);
  expect(processed.map(({ links }) => links[0]?.context.spanId)).toEqual(Array(3).fill(enumeration?.id));
  const retried = processed.filter(({ attributes }) => attributes["rondo.task"] === 0);
  expect(
    retried.map(({ attributes, status, exceptions }) => [attributes["rondo.attempt"], status, exceptions]),
  ).toEqual([
    [1, SpanStatusCode.ERROR, ["TypeError: once"]],
    [2, SpanStatusCode.OK, []],
  ]);
  const steps = spans.filter(({ name }) => name === "rondo.step inner");
  // The second attempt finds the step journaled.
  expect(steps.map(({ parent }) => processed.some((task) => task.id === parent))).toEqual([true, true]);
  const counted = values.filter(([name]) => name === "rondo.attempts");
  expect(
    counted
      .map(([, , attributes]) => `${String(attributes["rondo.use"])} ${String(attributes["rondo.status"])}`)
      .toSorted(),
  ).toEqual(["fan.returns done", "fan.work done", "fan.work done", "fan.work done", "fan.work failed"]);
  expect(
    values.some(
      ([name, , attributes]) => name === "rondo.attempt.duration" && attributes["rondo.workflow"] === "fan",
    ),
  ).toBe(true);
});

test("waits are visible: the attempt ends as suspended, another one goes on", async () => {
  const nap = flow("nap", async ({ sleep }) => {
    await sleep("short", "1ms");
    return 1;
  });
  const rondo = await open([nap]);
  const { spans } = collect();
  await rondo.run(nap, null);
  const shown = spans.filter(({ name }) => name.startsWith("rondo.task nap"));
  expect(shown.map(({ attributes, events }) => [attributes["rondo.status"], events])).toEqual([
    ["suspended", ["rondo.wait"]],
    ["done", []],
  ]);
});

test("a client sends its span along: the request is its child, the attempts are below", async () => {
  await using rondo = await openRondo({ store: "memory:", server: { port: 0 } });
  rondo.serve(fan);
  const { spans } = collect();
  const client = connect({ url: rondo.url as string });
  const { id, traceId } = await inSpan("caller", () => client.run(fan, { n: 1 }));
  const request = spans.find(({ name, parent }) => name === "POST /v1/executions" && parent === id);
  expect(request?.traceId).toBe(traceId);
  expect(spans.find(({ name }) => name === "rondo.task fan.work")).toMatchObject({
    parent: request?.id,
    traceId,
  });
  const text = await (await fetch(`${rondo.url}/metrics`)).text();
  expect(text).toMatch(/rondo_handler_tasks_total\{handler="fan\.work\.work",status="done"\} 1/);
});

test("nothing is measured, and nothing is loaded, without an SDK", async () => {
  const rondo = await open([fan]);
  expect(await rondo.run(fan, { n: 1 })).toBe(1);
  expect(trace.getSpanContext(contextApi.active())).toBeUndefined();
});
