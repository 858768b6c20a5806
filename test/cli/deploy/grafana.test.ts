// deploy/grafana/rondo.json cannot be shown here: its shape is checked, and its queries against what /metrics really has.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { z } from "zod";
import type { BrokerView } from "../../../src/protocol/broker-view.ts";
import { Metrics } from "../../../src/server/metrics.ts";
import { serve } from "../../fixtures/server/api-fixture.ts";

const datasource = z.strictObject({ type: z.literal("prometheus"), uid: z.literal("${datasource}") });
const panel = z.strictObject({
  id: z.int(),
  type: z.enum(["timeseries", "stat"]),
  title: z.string().min(1),
  description: z.string(),
  datasource,
  gridPos: z.strictObject({ x: z.int().min(0), y: z.int().min(0), w: z.int().min(1), h: z.int().min(1) }),
  fieldConfig: z.strictObject({
    defaults: z.looseObject({ unit: z.string() }),
    overrides: z.array(z.never()),
  }),
  options: z.looseObject({}),
  targets: z
    .array(z.strictObject({ refId: z.string().regex(/^[A-Z]$/), expr: z.string(), legendFormat: z.string() }))
    .min(1),
});
const DASHBOARD = z.strictObject({
  title: z.literal("Rondo"),
  uid: z.string(),
  description: z.string().regex(/not run where it was written/),
  tags: z.array(z.string()),
  schemaVersion: z.int().min(36),
  version: z.int(),
  editable: z.boolean(),
  refresh: z.string(),
  time: z.strictObject({ from: z.string(), to: z.string() }),
  timezone: z.string(),
  templating: z.strictObject({
    list: z.array(
      z.looseObject({ name: z.string(), type: z.enum(["datasource", "query"]), query: z.string() }),
    ),
  }),
  annotations: z.strictObject({ list: z.array(z.never()) }),
  panels: z.array(panel),
});

const dashboard = DASHBOARD.parse(JSON.parse(readFileSync("deploy/grafana/rondo.json", "utf8")));
const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
const queries = [...expressions, ...dashboard.templating.list.map(({ query }) => query)];

test("asks for metrics and labels that there are, and for all metrics", async () => {
  const { text } = await (await serve()).get("/metrics");
  const ofBroker = new Metrics();
  const view = { state: "up", queues: 0, unconfirmed: 0, published: 0, counted: 0, deadLetters: 0 };
  ofBroker.watchBroker(() => view as BrokerView);
  const all = text + (await ofBroker.text()).body;
  ofBroker.close();
  const families = new Map(
    Array.from(all.matchAll(/^# TYPE (rondo_\w+) (\w+)$/gm), ([, name = "", type = ""]) => [name, type]),
  );
  const there = [...families].flatMap(([name, type]) => (type === "histogram" ? [`${name}_bucket`] : [name]));
  const asked = new Set(queries.flatMap((query) => query.match(/rondo_\w+/g) ?? []));
  expect([...asked].toSorted()).toEqual(there.toSorted());
  const source = readFileSync("src/server/metrics.ts", "utf8");
  for (const [, names = ""] of expressions.join("\n").matchAll(/ by \(([^)]+)\)/g))
    for (const label of names.split(/,\s*/).filter((name) => name !== "le"))
      expect(source, label).toContain(`"${label}"`);
});

test("has expressions whose parentheses fit, over the chosen nodes", () => {
  for (const expression of expressions) {
    for (const [open, close] of ["()", "{}", "[]"])
      expect(expression.split(open as string).length, expression).toBe(
        expression.split(close as string).length,
      );
    expect(expression).toContain('{job=~"$job",instance=~"$instance"');
    // What only grows is looked at as a rate, a gauge as it is.
    expect(/_(?:total|bucket|published|receipts|dead_letters)\{/.test(expression), expression).toBe(
      /\b(?:rate|increase)\(/.test(expression),
    );
  }
  const variables = new Set(dashboard.templating.list.map(({ name }) => name));
  for (const [, name = ""] of JSON.stringify(dashboard).matchAll(/\$\{?(\w+)/g))
    if (!name.startsWith("__")) expect(variables).toContain(name);
});

test("has panels that do not cover each other", () => {
  const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  for (const { gridPos } of dashboard.panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
});
