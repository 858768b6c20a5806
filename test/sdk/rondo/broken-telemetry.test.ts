// OpenTelemetry of the program that throws at any place: the work goes on.
import { workflow } from "rondo";
import { expect, onTestFinished, test } from "vitest";
import { open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const REGISTRY = Symbol.for("opentelemetry.js.api.1");
const boom = (): never => {
  throw new Error("the exporter is broken");
};
const span = {
  spanContext: () => ({ traceId: "1".repeat(32), spanId: "2".repeat(16), traceFlags: 1 }),
  setAttribute: () => undefined,
  setStatus: () => undefined,
  end: () => undefined,
};
const tracer = (made: unknown) => ({ getTracer: () => ({ startSpan: () => made }) });

const work = workflow<{ n: number }>({ name: "work" }).phase("a", {
  enumerate: () => [1, 2],
  process: async ({ task, step }) => task + (await step("s", () => 1)),
});

test.each<[string, object]>([
  ["a tracer", { trace: { getTracer: boom } }],
  ["no span", { trace: tracer(undefined) }],
  ["a span's context", { trace: tracer({ ...span, spanContext: boom }) }],
  ["a span", { trace: tracer({ ...span, setAttribute: boom, setStatus: boom, end: boom }) }],
  ["the active context", { trace: tracer(span), context: { active: boom, with: boom } }],
  ["a meter", { metrics: { getMeter: boom } }],
  ["an instrument", { metrics: { getMeter: () => ({ createCounter: boom, createHistogram: boom }) } }],
])("%s that throws stops nothing", async (_what, registered) => {
  const globals = globalThis as { [REGISTRY]?: object };
  const before = globals[REGISTRY];
  onTestFinished(() => {
    if (before === undefined) delete globals[REGISTRY];
    else globals[REGISTRY] = before;
  });
  globals[REGISTRY] = registered;
  const rondo = await open([work]);
  const execution = await rondo.start(work, { n: 1 });
  await execution.result();
  expect(await execution.status()).toBe("done");
});

test("a middleware that does not wait for its code does not end the process if the code fails", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(() => void process.off("unhandledRejection", note));
  let failed: () => void = () => undefined;
  const hasFailed = new Promise<void>((resolve) => {
    failed = resolve;
  });
  const hasty = workflow<{ n: number }>({
    name: "hasty",
    use: [
      (_context, next) => {
        void next();
        return 5;
      },
    ],
  }).phase("a", {
    async process() {
      await new Promise((resolve) => setImmediate(resolve));
      failed();
      throw new Error("too late");
    },
  });
  const rondo = await open([hasty]);
  expect(await rondo.run(hasty, { n: 1 })).toBe(5);
  await hasFailed;
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
});
