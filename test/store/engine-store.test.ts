import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openRondo, type Rondo, workflow } from "../../src/index.ts";
import type { AnyWorkflow } from "../../src/sdk/workflow.ts";
// @ts-expect-error plain JavaScript, so that every version can run it as it is
import { invoiceWorkflows } from "../fixtures/invoice-workflow.mjs";
// @ts-expect-error plain JavaScript, so that every version can run it as it is
import { orderWorkflow } from "../fixtures/order-workflow.mjs";

const FIXTURES = fileURLToPath(new URL("../fixtures/stores/", import.meta.url));

test.each(readdirSync(FIXTURES))("executions of %s go on where they were", async (version) => {
  const directory = mkdtempSync(join(tmpdir(), "rondo-fixture-"));
  copyFileSync(join(FIXTURES, version, "rondo.db"), join(directory, "rondo.db"));
  const rondo = await openRondo({ store: `file:${directory}` });
  try {
    rondo.serve((orderWorkflow as (sdk: unknown) => AnyWorkflow)({ workflow }));
    const hasInvoices = version !== "v0.1.0";
    if (hasInvoices) rondo.serve(...(invoiceWorkflows as (sdk: unknown) => AnyWorkflow[])({ workflow }));
    const statuses = Object.fromEntries(
      (await rondo.list()).data.filter(({ parent }) => parent === null).map(({ id, status }) => [id, status]),
    );
    expect(statuses).toEqual({
      ...(hasInvoices ? { billed: "done", billing: "running" } : {}),
      done: "done",
      failed: "failed",
      waiting: "running",
      paused: "paused",
      cancelled: "cancelled",
      later: "running",
    });
    expect(await rondo.execution("done").result()).toEqual({ pages: 3, approval: { by: "ada" } });
    await rondo.execution("waiting").signal("approval", "yes");
    expect(await rondo.execution("waiting").result()).toEqual({ pages: 1_500, approval: "yes" });
    await rondo.execution("paused").resume();
    expect(await rondo.execution("paused").result()).toEqual({ pages: 2, approval: { by: "bob" } });
    await rondo.execution("cancelled").retry();
    await rondo.execution("cancelled").signal("approval", 1);
    expect(await rondo.execution("cancelled").result()).toEqual({ pages: 1, approval: 1 });
    expect(await rondo.execution("later").why()).toMatch(/^It starts in /);
    if (hasInvoices) await invoicesGoOn(rondo);
  } finally {
    await rondo.close();
    rmSync(directory, { recursive: true });
  }
});

/** Children that wait for a signal inside their task get it, and their parent ends with what they gave. */
async function invoicesGoOn(rondo: Rondo): Promise<void> {
  expect(await rondo.execution("billed").result()).toEqual(["42 to ada, approved by fixture"]);
  const open = (await rondo.list({ workflow: "invoice", status: "running" })).data;
  expect(open).toHaveLength(2);
  for (const { id } of open) await rondo.execution(id).signal("approval", { by: "us" });
  const expected = ["42 to bob, approved by us", "42 to eve, approved by us"];
  expect(await rondo.execution("billing").result()).toEqual(expected);
  const lines = [];
  for (const { id } of open) for await (const { text } of rondo.logs(id)) lines.push(text);
  expect(lines).toContain("drafted for bob");
}
