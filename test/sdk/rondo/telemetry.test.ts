// OpenTelemetry with the public SDK's API and a collector made here: parents, links, retries, waits, steps and metrics.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Attributes,
  type Context,
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
import { afterEach, expect, onTestFinished, test } from "vitest";
import { all, open } from "../../fixtures/sdk/open-rondo-fixture.ts";
import { registerContexts } from "../../fixtures/sdk/trace-context-fixture.ts";

interface Collected {
  readonly name: string;
  readonly attributes: Attributes;
  readonly links: readonly Link[];
  readonly events: string[];
  readonly exceptions: string[];
  readonly id: string;
  readonly parent: string | undefined;
  readonly traceId: string;
  readonly from: unknown;
  to?: unknown;
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
        from: options.startTime,
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
      end: (to?: unknown) => spans.push(Object.assign(collected, { to })),
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
  registerContexts();
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

test("a visit of a phase is a span below the caller's, with its counts, its times and a link to its enumeration", async () => {
  let visits = 0;
  const loop = workflow<{ n: number }>({ name: "loop" })
    .phase(
      "work",
      {
        enumerate: ({ input }) => Array.from({ length: input.n }, (_, i) => i),
        process({ task }) {
          if (task === 0) throw new Error("never");
        },
        retry: { attempts: 1 },
        tolerate: 1,
      },
      { next: () => (++visits < 2 ? "work" : "go"), among: ["work", "go"] },
    )
    .waitFor("go")
    .phase("fails", {
      process() {
        throw new Error("no");
      },
      retry: { attempts: 1 },
    });
  const rondo = await open([loop]);
  const { spans } = collect();
  const { result: execution, id, traceId } = await inSpan("caller", () => rondo.start(loop, { n: 3 }));
  await execution.signal("go");
  await expect(execution.result()).rejects.toThrow("no");
  const events = await all(execution.events());
  await rondo.close();
  const phases = spans.filter(({ name }) => name.startsWith("rondo.phase"));
  const timeOf = (kind: string, { attributes }: Collected) =>
    new Date(
      events.find(
        (event) =>
          event.kind === `workflow.phase.${kind}` &&
          event["phase"] === attributes["rondo.phase"] &&
          event["visit"] === attributes["rondo.visit"],
      )?.at ?? 0,
    );
  expect(
    phases.map(({ name, attributes, status }) => [
      name,
      ...["visit", "tasks", "tasks.done", "tasks.failed"].map((key) => attributes[`rondo.${key}`]),
      status,
    ]),
  ).toEqual([
    ["rondo.phase work", 1, 3, 2, 1, SpanStatusCode.OK],
    ["rondo.phase work", 2, 3, 2, 1, SpanStatusCode.OK],
    ["rondo.phase go", 1, 1, 1, 0, SpanStatusCode.OK],
    ["rondo.phase fails", 1, 1, 0, 1, SpanStatusCode.ERROR],
  ]);
  for (const span of phases) {
    expect(span).toMatchObject({ parent: id, traceId, attributes: { "rondo.execution": execution.id } });
    expect([span.from, span.to]).toEqual([timeOf("started", span), timeOf("finished", span)]);
  }
  const enumerations = spans.filter(({ attributes }) => attributes["rondo.do"] === "enumerate");
  expect(phases.map(({ links }) => links.map(({ context }) => context.spanId))).toEqual([
    ...enumerations.map((span) => [span.id]),
    [],
    [],
  ]);
});

test("a phase that outlives its process has one span, which begins with the phase; a retry gives a further one", async () => {
  let isBroken = true;
  const wait = workflow({ name: "wait" })
    .waitFor("go")
    .phase("last", {
      process() {
        if (isBroken) throw new Error("broken");
      },
      retry: { attempts: 1 },
    });
  const directory = mkdtempSync(join(tmpdir(), "rondo-spans-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const store = `file:${directory}`;
  const { spans } = collect();
  const first = await openRondo({ store });
  first.serve(wait);
  const { id } = await inSpan("caller", () => first.start(wait, null, { id: "w1" }));
  await first.close();
  expect(spans.filter(({ name }) => name.startsWith("rondo.phase"))).toEqual([]);
  const second = await openRondo({ store });
  second.serve(wait);
  const execution = second.execution("w1");
  await execution.signal("go");
  await expect(execution.result()).rejects.toThrow("broken");
  isBroken = false;
  await execution.retry();
  await execution.result();
  const [began] = (await all(execution.events())).filter(({ kind }) => kind === "workflow.phase.started");
  await second.close();
  const phases = spans.filter(({ name }) => name.startsWith("rondo.phase"));
  expect(
    phases.map(({ name, attributes, status, parent }) => [name, attributes["rondo.round"], status, parent]),
  ).toEqual([
    ["rondo.phase go", 1, SpanStatusCode.OK, id],
    ["rondo.phase last", 1, SpanStatusCode.ERROR, id],
    ["rondo.phase last", 2, SpanStatusCode.OK, id],
  ]);
  expect(phases[0]?.from).toEqual(new Date(began?.at ?? 0));
  expect(phases[2]?.from).toEqual(phases[1]?.from);
});

test("an execution that was started outside of a span has no spans of phases", async () => {
  const rondo = await open([fan]);
  const { spans } = collect();
  await rondo.run(fan, { n: 1 });
  await rondo.close();
  expect(spans.some(({ name }) => name.startsWith("rondo.task"))).toBe(true);
  expect(spans.filter(({ name }) => name.startsWith("rondo.phase"))).toEqual([]);
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
