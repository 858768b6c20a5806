// Spans of attempts, with a provider made here.
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type ContextManager,
  context as contextApi,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from "@opentelemetry/api";
import { afterEach, describe, expect, test } from "vitest";
import { WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { BatchContext, EnumerateContext } from "./handler-code.ts";

interface Recorded {
  readonly name: string;
  readonly parent: SpanContext | undefined;
  readonly attributes: Record<string, unknown>;
  readonly context: SpanContext;
  status: { code: SpanStatusCode; message?: string | undefined } | null;
  isEnded: boolean;
}

/** Registers a minimal tracer provider that records the spans. */
function provide(): Recorded[] {
  const spans: Recorded[] = [];
  const tracer: Pick<Tracer, "startSpan"> = {
    startSpan(name, options = {}, parent = ROOT_CONTEXT) {
      const above = trace.getSpanContext(parent);
      const spanId = (spans.length + 1).toString(16).padStart(16, "0");
      const context = { traceId: above?.traceId ?? "1".repeat(32), spanId, traceFlags: 1 };
      const attributes = { ...options.attributes } as Record<string, unknown>;
      const recorded: Recorded = { name, parent: above, attributes, context, status: null, isEnded: false };
      spans.push(recorded);
      return {
        spanContext: () => context,
        setAttribute(key: string, value: unknown) {
          attributes[key] = value;
        },
        setStatus(status: Recorded["status"]) {
          recorded.status = status;
        },
        end() {
          expect(recorded.isEnded).toBe(false);
          recorded.isEnded = true;
        },
      } as unknown as Span;
    },
  };
  expect(trace.setGlobalTracerProvider({ getTracer: () => tracer } as unknown as TracerProvider)).toBe(true);
  const storage = new AsyncLocalStorage<Context>();
  const manager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (context: Context, run: () => unknown) => storage.run(context, run),
    disable: () => {},
  };
  expect(contextApi.setGlobalContextManager(manager as unknown as ContextManager)).toBe(true);
  return spans;
}

afterEach(() => {
  trace.disable();
  contextApi.disable();
});

const PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const activeSpan = () => trace.getSpanContext(contextApi.active())?.spanId;

describe("spans", () => {
  test("one per attempt, under the start's trace, active while the code runs, with how it ended", async () => {
    const spans = provide();
    const active: unknown[] = [];
    const fixture = new WorkerFixture({
      process: async ({ task }) => {
        active.push(activeSpan());
        await Promise.resolve();
        active.push(activeSpan());
        if (task === "bad") throw new Error("boom");
      },
    });
    await fixture.give(["good", "bad"], { trace: PARENT });
    expect(spans).toMatchObject([
      {
        name: "rondo.task w.a",
        parent: { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", isRemote: true },
        attributes: {
          "rondo.execution": "e1",
          "rondo.phase": "a",
          "rondo.handler": "a",
          "rondo.task": 0,
          "rondo.attempt": 1,
          "rondo.status": "done",
        },
        status: { code: SpanStatusCode.OK },
        isEnded: true,
      },
      {
        attributes: { "rondo.task": 1, "rondo.status": "failed" },
        status: { code: SpanStatusCode.ERROR, message: "boom" },
        isEnded: true,
      },
    ]);
    const [first, second] = spans.map(({ context }) => context.spanId);
    expect(active).toEqual([first, second, first, second]);
  });

  test.each([
    ["nothing", null],
    ["nonsense", "yesterday"],
    ["an empty trace", `00-${"0".repeat(32)}-${"0".repeat(16)}-01`],
  ])("with %s for a trace begin one of their own", async (_what, given) => {
    const spans = provide();
    const fixture = new WorkerFixture({ process: () => 1 });
    await fixture.give([1], { trace: given });
    expect(spans).toMatchObject([{ parent: undefined, isEnded: true }]);
  });

  test("of code that returns, throws, waits, is killed or handed back all end, each in its way", async () => {
    const spans = provide();
    const fixture = new WorkerFixture({
      process: ({ task, sleep }) => {
        if (task === "sleeps") return sleep("nap", "1h");
        if (task === "slow") return new Promise(() => {});
        if (task === "throws") throw new Error("no");
        return 1;
      },
    });
    await fixture.give(["returns", "throws", "sleeps", "slow"], { timeoutMs: 1_000 });
    await fixture.clock.advance("1s");
    expect(spans.map(({ attributes, status }) => [attributes["rondo.status"], status?.code])).toEqual([
      ["done", SpanStatusCode.OK],
      ["failed", SpanStatusCode.ERROR],
      ["suspended", undefined],
      ["killed", SpanStatusCode.ERROR],
    ]);
    expect(spans.every(({ isEnded }) => isEnded)).toBe(true);
  });

  test("one for a group, with its first trouble; one for an enumeration", async () => {
    const spans = provide();
    const fixture = new WorkerFixture({
      processBatch: async ({ tasks }: BatchContext) => tasks.map((n) => (n === 1 ? new Error("one") : n)),
      enumerate: ({ input }: EnumerateContext) => [input],
    });
    await fixture.give([0, 1, 2], { batch: 3 });
    await fixture.give([], { do: "enumerate" });
    expect(spans.map(({ attributes, status }) => [attributes["rondo.task"], status?.message])).toEqual([
      [0, "one"],
      [-1, undefined],
    ]);
    expect(spans.every(({ isEnded }) => isEnded)).toBe(true);
  });

  test("do not tell secrets", async () => {
    const spans = provide();
    const fixture = new WorkerFixture(
      { process: () => Promise.reject(new Error("key hunter2-hunter2")) },
      { secrets: ["hunter2-hunter2"] },
    );
    await fixture.give([1]);
    expect(spans[0]?.status?.message).toBe("key [redacted]");
  });
});

test("without a provider nothing is traced, and the code sees no span", async () => {
  const seen: unknown[] = [];
  const fixture = new WorkerFixture({ process: () => void seen.push(activeSpan()) });
  await fixture.give([1], { trace: PARENT });
  expect(seen).toEqual([undefined]);
});
