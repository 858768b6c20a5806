// What people do with the dashboard: by keyboard and by mouse, signed in and not, while it is seen and while it is not.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import {
  approval,
  invoices,
  nightly,
  odd,
  seed,
  shaky,
  thumbnails,
  unpriced,
} from "../fixtures/dashboard/seeds-fixture.ts";

const PATIENCE = { timeout: 30_000 };
const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));

describe.runIf(hasBrowser)("a user", () => {
  let server: RondoServer;
  beforeAll(async () => {
    const targets = { page: { command: ["/bin/sh", "-c", "cat > /dev/null"] } };
    server = await serve({ alerts: { targets } });
    await seed(server);
  });

  test("makes a rule for alerts, tests it and deletes it", async () => {
    const page = await openPage(`${server.url}/alerts`);
    await page.getByRole("button", { name: "New rule…" }).click();
    const dialog = page.getByRole("dialog", { name: "New rule" });
    await dialog.getByLabel("Id", { exact: true }).fill("mine");
    await dialog.getByLabel("When").selectOption("error.new");
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Test mine" }).click();
    await page.getByText("The target took the test.").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Delete mine" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No rules yet.").waitFor();
  });

  test("finds the executions of a task error by its text", async () => {
    const page = await openPage(`${server.url}/executions?q=declined`);
    await page.getByRole("link", { name: /tasks of invoices failed with Fatal: card of customer/ }).click();
    await page.waitForURL("**/dead-letters?group=*");
  });

  test("goes everywhere by keyboard, and finds the keys listed", async () => {
    const page = await openPage(server.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).getByText("Go to Executions").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await page.waitForURL("**/executions");
    await page.getByText("thumbs-3").waitFor();
    await page.keyboard.press("f");
    await page.waitForURL("**/executions?status=failed");
    await page.getByRole("table").getByText("nightly-2026-11-15").waitFor();
    await page.getByRole("table").focus();
    await page.keyboard.press("Enter");
    await page.waitForURL("**/executions/nightly-2026-11-15");
  });

  test("finds an execution in the palette by a part of its id", async () => {
    const page = await openPage(server.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("invoices-7");
    await page.getByRole("option", { name: "invoices-7 invoices" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL("**/executions/invoices-7");
  });

  test("is told in the palette that a search failed, unless it is only not allowed to list the workers", async () => {
    const page = await openPage(server.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    let status = 403;
    const body = JSON.stringify({ code: "made", detail: "the workers are not listed" });
    await page.route("**/v1/workers", (route) => route.fulfill({ status, body }));
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("invoices-7");
    await page.getByRole("option", { name: "invoices-7 invoices" }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    status = 500;
    await page.getByRole("combobox").fill("invoices-8");
    await page.getByRole("alert").getByText("the workers are not listed").waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });

  test("sees which versions of a workflow open executions need, and that no worker serves them", async () => {
    const post = async (path: string, body: unknown): Promise<void> => {
      const headers = { "content-type": "application/json" };
      const sent = { method: "POST", headers, body: JSON.stringify(body) };
      expect((await fetch(server.url + path, sent)).status).toBe(201);
    };
    const starts = [["old-1", "old-2"], ["new-1"], []];
    for (const [i, ids] of starts.entries()) {
      const handlers = { pack: { use: "parcels.pack", tasks: Array.from({ length: i + 1 }, (_, n) => n) } };
      await post("/v1/workflows", { rondo: 1, name: "parcels", phases: [{ name: "pack", handlers }] });
      for (const id of ids) await post("/v1/executions", { workflow: "parcels", id });
    }
    const page = await openPage(`${server.url}/definitions/parcels`);
    const versions = page.locator(".versions > li");
    await versions
      .filter({ hasText: /2 open executions, the oldest: old-1 .*No worker serves parcels\.pack/ })
      .waitFor();
    await versions.filter({ hasText: /1 open execution: new-1 / }).waitFor();
    expect(await versions.first().getByText("open execution").count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
    await versions.getByRole("link", { name: "old-1" }).click();
    await page.waitForURL("**/executions/old-1");
  });

  test("searches, and the address says what for", async () => {
    const page = await openPage(`${server.url}/executions`);
    await page.getByRole("table").getByRole("link").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("day=2026-11-14");
    await page.waitForURL("**/executions?q=day%3D2026-11-14");
    await page.getByText("1 execution", { exact: true }).waitFor();
    expect(await page.getByRole("table").getByRole("link").allTextContents()).toEqual(["thumbs-4"]);
    await page.reload();
    await page.getByText("1 execution", { exact: true }).waitFor();
  });

  test("goes from failure to failure, and sees each in full", async () => {
    const page = await openPage(`${server.url}/executions/invoices-3`);
    await page.getByRole("img", { name: /tasks: .* failed/ }).waitFor();
    await page.keyboard.press("n");
    await page.waitForURL("**task=3");
    await page
      .getByRole("region", { name: "Task 3" })
      .getByText("card of customer 3 was declined")
      .first()
      .waitFor();
    await page.keyboard.press("n");
    await page.waitForURL("**task=5");
    await page.getByRole("region", { name: "Task 5" }).getByText("no such invoice").first().waitFor();
    await page.keyboard.press("p");
    await page.waitForURL("**task=3");
    // Back closes the task, and stays at the execution.
    await page.goBack();
    await page.getByRole("region", { name: "Task 3" }).waitFor({ state: "detached" });
    expect(new URL(page.url()).pathname).toBe("/executions/invoices-3");
  });

  test.each([
    [1_440, 900],
    [390, 844],
  ])("sees a task beside the map without scrolling, at %i x %i", async (width, height) => {
    const page = await openPage(`${server.url}/executions/invoices-3?task=3`, { width, height });
    const drawer = page.getByRole("region", { name: "Task 3" });
    for (const part of [
      drawer.getByText("card of customer 3 was declined").first(),
      drawer.getByRole("button", { name: "Retry…" }),
      drawer.getByText("Attempt 1"),
    ]) {
      await part.waitFor();
      const box = await part.boundingBox();
      expect((box?.y ?? -1) >= 0 && (box?.y ?? 0) + (box?.height ?? 0) <= height).toBe(true);
      expect((box?.x ?? -1) >= 0 && (box?.x ?? 0) + (box?.width ?? 0) <= width).toBe(true);
    }
    expect(await findBarriers(page)).toEqual([]);
  });

  test("reads each attempt of a task with its own error, log and steps", async () => {
    await (await server.rondo.start(shaky, {}, { id: "shaky-1" })).result();
    const page = await openPage(`${server.url}/executions/shaky-1?task=0`);
    const drawer = page.getByRole("region", { name: "Task 0" });
    await drawer.getByText("Attempt 3").waitFor();
    for (const n of [1, 2]) {
      const attempt = drawer.locator(".attempts > li", { hasText: `Attempt ${n}` });
      await attempt.getByText(`Attempt ${n}`, { exact: true }).click();
      await attempt.getByText(`call ${n} was refused`).first().waitFor();
      await attempt.getByText(`calling for the time ${n}`).waitFor();
    }
    await drawer.getByText("open", { exact: true }).waitFor();
  });

  test("sees attempts, back-offs, sleeps, waits, steps and children on one timeline", async () => {
    const page = await openPage(`${server.url}/executions/family-1`);
    // The phase that works is shown, although an earlier one has more tasks.
    await page.locator(".lane.is-chosen", { hasText: "trips" }).waitFor();
    await page.getByRole("button", { name: /^Show child family-1~/ }).click();
    // The lanes of the child are loaded into the timeline of its parent.
    await page.getByRole("button", { name: "Show tasks of book" }).click();
    for (const step of ["reserve", "charge"])
      await page.getByRole("link", { name: `step ${step}` }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole("link", { name: /^child family-1~/ }).click();
    await page.waitForURL(/family-1~[^/]+$/);
    await page.getByText("Parent", { exact: true }).waitFor();
    await page.getByRole("link", { name: "family-1", exact: true }).click();
    await page.getByRole("region", { name: "Task 0" }).waitFor();
  });

  test("sees the phases of a workflow as a graph, with its figures", async () => {
    const page = await openPage(`${server.url}/definitions/family`);
    const trips = page.getByRole("region", { name: "Phase trips" });
    await trips.getByText("1 execution here").waitFor();
    await page.getByRole("region", { name: "Phase plan" }).getByText("3 tasks, 100 %").waitFor();
    await page.getByRole("button", { name: "7 days" }).click();
    await page.waitForURL("**over=7d");
    await page.getByRole("cell", { name: "invoices" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.goto(`${server.url}/definitions`);
    await page.getByRole("table").getByText("0 %", { exact: true }).waitFor();
  });

  test("retries one task, a group of errors and a selection, after being told how many run", async () => {
    await (await server.rondo.start(invoices, { count: 40 }, { id: "mended-1" })).result();
    const page = await openPage(`${server.url}/executions/mended-1?task=3`);
    const dialog = page.getByRole("dialog", { name: "Retry tasks" });
    await page.getByRole("region", { name: "Task 3" }).getByRole("button", { name: "Retry…" }).click();
    await dialog.getByText("1 task will run again: task 3 of charge.").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Retry 1 task" }).click();
    await page.getByText("1 task will run again.", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Task 3" }).getByText("Attempt 2").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Retry 2…" }).click();
    await dialog.getByText("2 tasks will run again: tasks of charge with the error Fatal.").waitFor();
    await dialog.getByText("Close", { exact: true }).click();
    await page.getByRole("checkbox", { name: "Select task 14" }).check();
    await page.getByRole("button", { name: "Retry 1 selected…" }).click();
    await dialog.getByText("1 task will run again: selected tasks of charge.").waitFor();
  });

  test("begins at what failed an execution, and reads where in a script that was", async () => {
    await server.rondo.start(unpriced, { count: 3 }, { id: "unpriced-1" });
    const page = await openPage(`${server.url}/executions/unpriced-1?tab=steps`);
    await page.getByText("nothing has a price").first().waitFor();
    await page.getByRole("link", { name: "total, task 0" }).click();
    await page.getByRole("region", { name: "Task 0" }).getByText("in run sum, line 2").waitFor();
    await page.goto(`${server.url}/executions/unpriced-1?tab=data`);
    await page.locator(".lane.is-chosen", { hasText: "total" }).waitFor();
    await page.getByRole("link", { name: "total, task 0" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });

  test("looks closer at a piece of the time by keys, wheel and drag, and the address keeps it", async () => {
    const page = await openPage(`${server.url}/executions/thumbs-3?tab=events`);
    const spanOf = (): number[] =>
      ["from", "to"].map((name) => Number(new URL(page.url()).searchParams.get(name)));
    const lengthOf = ([from = 0, to = 0]: number[]): number => to - from;
    const hasSpan = (isThere: boolean) => (url: URL) => url.searchParams.has("from") === isThere;
    await page.getByText("Finished: done").first().waitFor();
    await page.keyboard.press("+");
    await page.waitForURL(hasSpan(true));
    const closer = spanOf();
    await page.getByText("Finished: done", { exact: true }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Earlier" }).click();
    await page.waitForURL((url) => Number(url.searchParams.get("from")) < (closer[0] ?? 0));
    expect(Math.abs(lengthOf(spanOf()) - lengthOf(closer))).toBeLessThan(2);
    const earlier = spanOf();
    await page.reload();
    await page
      .getByText(/^\d+ m?s of \d/)
      .or(page.getByText(/ of \d.* m?s$/))
      .first()
      .waitFor();
    expect(spanOf()).toEqual(earlier);
    const box = await page.locator(".lane-track").nth(1).boundingBox();
    const [x, y] = [(box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + 20];
    await page.mouse.move(x, y);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -300);
    await page.keyboard.up("Control");
    await page.waitForURL((url) => Number(url.searchParams.get("to")) < (earlier[1] ?? 0));
    await page.mouse.dblclick(x, y);
    await page.waitForURL(hasSpan(false));
    await page.mouse.down();
    await page.mouse.move(x + 150, y, { steps: 3 });
    await page.mouse.up();
    await page.waitForURL(hasSpan(true));
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press("z");
    await page.waitForURL(hasSpan(false));
  });

  test("steps back in time: the whole page shows how it was", async () => {
    const page = await openPage(`${server.url}/executions/thumbs-3`);
    await page.getByRole("heading", { name: "thumbs-3" }).waitFor();
    await page.getByText("done", { exact: true }).first().waitFor();
    await page.goto(`${server.url}/executions/thumbs-3?at=3`);
    await page.getByRole("button", { name: "Back to now" }).waitFor();
    await page.locator(".execution-line .badge", { hasText: "running" }).waitFor();
    await page.keyboard.press("]");
    await page.waitForURL("**at=4");
    await page.keyboard.press("0");
    await page.waitForURL("**/executions/thumbs-3");
    await page.locator(".execution-line .badge", { hasText: "done" }).waitFor();
  });

  test("finds the event that is looked at among many, and those before it", async () => {
    const execution = await server.rondo.start(approval, {}, { id: "talkative-1" });
    for (let i = 0; i < 220; i++) await execution.signal("noise", i);
    const page = await openPage(`${server.url}/executions/talkative-1?tab=events&at=170`);
    const events = page.getByRole("table", { name: "Events" });
    await events.locator(".chosen").getByText("170").waitFor();
    await page.getByLabel("Event 170", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Earlier events" }).click();
    await events.getByText("70", { exact: true }).waitFor();
    await page.keyboard.press("[");
    await events.locator(".chosen").getByText("169").waitFor();
  });

  test("has an execution counted anew", async () => {
    const page = await openPage(`${server.url}/executions/invoices-3?tab=events`);
    await page.getByRole("button", { name: "Verify" }).click();
    await page.getByText("0 lost, 0 counted twice").waitFor();
  });

  test("is offered only what can be done, and runs an execution again with another input", async () => {
    const page = await openPage(`${server.url}/executions/invoices-3`);
    await page.getByRole("button", { name: "Run again…" }).click();
    for (const name of ["Pause…", "Cancel…", "Signal…"])
      expect(await page.getByRole("button", { name }).count()).toBe(0);
    const dialog = page.getByRole("dialog", { name: "Run invoices again" });
    await dialog.getByLabel("count").fill("7.5");
    await dialog.getByRole("button", { name: "Run" }).click();
    await dialog.locator(".field-problem").waitFor();
    await dialog.getByLabel("count").fill("7");
    await dialog.getByLabel(/^Id/).fill("invoices-again");
    await dialog.getByLabel(/^Tags/).fill("team=ops");
    await dialog.getByRole("button", { name: "Run" }).click();
    await page.waitForURL("**/executions/invoices-again");
    await page.getByText("7 of 7 tasks").waitFor();
    await page.getByRole("link", { name: "ops" }).waitFor();
  });

  test("pauses, resumes and signals an execution, and reads why it waits", async () => {
    await server.rondo.start(approval, {}, { id: "approval-8" });
    const page = await openPage(`${server.url}/executions/approval-8`);
    await page.getByRole("button", { name: "Pause…" }).waitFor();
    await page.keyboard.press("P");
    const pause = page.getByRole("dialog", { name: "Pause this execution?" });
    await pause.getByLabel(/^Reason/).fill("maintenance");
    await pause.getByRole("button", { name: "Pause" }).click();
    await page.getByText("It is paused by local (maintenance); resume it to go on.").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator(".execution-line .badge", { hasText: "needs a signal" }).waitFor();
    await page.getByText("waits for the signal approved", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Send approved…" }).click();
    const dialog = page.getByRole("dialog", { name: "Send a signal" });
    expect(await dialog.getByLabel("Signal").inputValue()).toBe("approved");
    await dialog.getByRole("button", { name: "Send" }).click();
    await dialog.locator(".field-problem").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByLabel("by").fill("jo");
    await dialog.getByRole("button", { name: "Send" }).click();
    await page.getByText(/^Completed in/).waitFor();
    expect(await page.title()).toBe("done approval-8 · Rondo");
  });

  test("retries many at once, after being told how many", async () => {
    const page = await openPage(`${server.url}/executions?workflow=nightly`);
    await page.getByRole("button", { name: "Retry all…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("1 execution matches: failed or cancelled, workflow nightly.").waitFor();
    await dialog.getByRole("button", { name: "Retry 1" }).click();
    await page.getByText("1 execution retried.").waitFor();
  });

  test("sees a rare error in full, and how many tasks its retry runs", async () => {
    const rare = await server.rondo.start(nightly, { count: 4 }, { id: "nightly-rare" });
    await rare.result().catch(() => null);
    for (let i = 0; i < 35; i++) {
      const other = await server.rondo.start(invoices, { count: 6 }, { id: `crowd-${i}` });
      await other.result();
    }
    const page = await openPage(`${server.url}/dead-letters`);
    const group = page.getByRole("listitem").filter({ hasText: "orders.csv has 7 columns" }).first();
    await group.getByRole("button", { name: /orders.csv/ }).click();
    await group.getByRole("link", { name: "nightly-rare" }).waitFor();
    await group.getByText("Stack trace").waitFor();
    await group.getByRole("button", { name: "Retry…" }).click();
    const dialog = page.getByRole("dialog", { name: "Retry failed tasks" });
    await dialog.getByText(/^\d+ tasks will run again\./).waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });

  test("is shown on the overview what needs attention, and goes there", async () => {
    const page = await openPage(server.url);
    const panel = page.locator(".attention");
    await panel.getByText("orphan.work").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await panel.getByRole("link", { name: /orphan.work/ }).click();
    await page.waitForURL("**/queues");
  });

  test("lists executions with what they wait for, and without children, of chosen days and statuses", async () => {
    const page = await openPage(`${server.url}/executions?workflow=orphan&top=true&since=2020-01-01`);
    const table = page.getByRole("table");
    await table.getByText("no worker").first().waitFor();
    await table.getByText('"work" waits for a worker: none serves "orphan.work" now').first().waitFor();
    await page.goto(`${server.url}/executions?status=failed,cancelled&until=2020-01-01`);
    await page.getByText("No execution matches these filters.").waitFor();
    await page.goto(`${server.url}/executions?status=failed,cancelled&workflow=nightly`);
    await table.getByRole("checkbox", { name: "Select nightly-2026-11-15" }).check();
    await page.getByText("1 selected").waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });

  test("sorts the list, and finds the order again under the name of a view", async () => {
    const page = await openPage(`${server.url}/executions?workflow=thumbnails`);
    const table = page.getByRole("table");
    const first = table.getByRole("row").nth(1).getByRole("link");
    await page.getByRole("button", { name: "Execution", exact: true }).click();
    await page.waitForURL("**sort=-id");
    await expect.poll(() => first.textContent(), PATIENCE).toBe("thumbs-11");
    await page.getByRole("button", { name: "Execution", exact: true }).click();
    await expect.poll(() => first.textContent(), PATIENCE).toBe("thumbs-0");
    await table
      .getByRole("columnheader", { name: "Execution" })
      .and(page.locator("[aria-sort=ascending]"))
      .waitFor();
    await page.getByRole("button", { name: "Save view…" }).click();
    const dialog = page.getByRole("dialog", { name: "Save this view" });
    await dialog.getByLabel("Name").fill("pictures");
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.waitForURL("**view=pictures");
    await page.getByLabel("View", { exact: true }).selectOption("Sleeping or waiting");
    await page.waitForURL("**waiting=true**");
    await table.getByRole("link", { name: "approval-7" }).waitFor();
    expect(await table.getByRole("link", { name: /thumbs/ }).count()).toBe(0);
    await page.getByLabel("View", { exact: true }).selectOption("pictures");
    await expect.poll(() => first.textContent(), PATIENCE).toBe("thumbs-0");
    expect(new URL(page.url()).searchParams.get("workflow")).toBe("thumbnails");
    await page.getByRole("button", { name: "Delete the view pictures" }).click();
    await page.waitForURL((url) => !url.searchParams.has("view"));
  });

  test("sees what a tab shows without scrolling to it, on a phone too", async () => {
    for (const [width, height] of [
      [1_440, 900],
      [390, 844],
    ] as const) {
      const page = await openPage(`${server.url}/executions/thumbs-3`, { width, height });
      await page.getByRole("img", { name: /tasks: .* done/ }).waitFor();
      await page.getByRole("tab", { name: "Logs" }).click();
      const search = page.getByRole("searchbox", { name: "Search the log" });
      await expect
        .poll(async () => (await search.boundingBox())?.y ?? height, PATIENCE)
        .toBeLessThan(height * 0.75);
    }
  });

  test("edits a schedule, reads its times in words, and deletes it with a reason", async () => {
    const page = await openPage(`${server.url}/schedules`);
    const card = page.locator(".schedule").filter({ hasText: "hourly" });
    await card.getByText("Every hour", { exact: true }).waitFor();
    await card.getByRole("button", { name: "Edit…" }).click();
    const dialog = page.getByRole("dialog", { name: "Edit hourly" });
    await dialog.getByLabel(/^Cron/).fill("30 7 * * 1-5");
    await dialog.getByText("At 07:30 on Monday to Friday").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Save" }).click();
    await card.getByText("At 07:30 on Monday to Friday").waitFor();
    await card.getByRole("button", { name: "Delete…" }).click();
    const ask = page.getByRole("dialog", { name: "Delete hourly?" });
    await ask.getByLabel(/^Reason/).fill("not needed");
    await ask.getByRole("button", { name: "Delete" }).click();
    await card.waitFor({ state: "detached" });
    await page.goto(`${server.url}/settings?tab=audit`);
    await page.getByRole("row", { name: /schedule.delete hourly not needed/ }).waitFor();
  });

  test("finds one of many schedules and workers, and asks only for what it shows", async () => {
    type Named = { id: string; state?: object };
    const many = async (path: string, change: (one: Named, n: number) => object): Promise<object> => {
      const { data } = (await (await fetch(`${server.url}${path}`)).json()) as { data: Named[] };
      return { data: Array.from({ length: 100 }, (_, n) => change(data[0] as Named, n)), next: null };
    };
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    const schedules = await many("/v1/schedules", (one, n) => {
      const lastError = n === 80 ? { message: "the workflow is gone" } : null;
      return { ...one, id: `plan-${n}`, state: { ...one.state, lastError, lastDue: 1 } };
    });
    const workers = await many("/v1/workers", (one, n) => ({ ...one, id: `w-${n}`, name: `host-${n}` }));
    await page.route("**/v1/schedules?*", (route) => route.fulfill({ json: schedules }));
    await page.route("**/v1/workers", (route) => route.fulfill({ json: workers }));
    let asked = 0;
    page.on("request", (request) => void (asked += Number(request.url().includes("/v1/executions?"))));
    await page.goto(`${server.url}/schedules`);
    await page.getByText("100 schedules, 1 failing").waitFor();
    const cards = page.locator(".schedule");
    expect(await cards.count()).toBe(24);
    await cards.first().getByText("the workflow is gone").waitFor();
    expect(asked).toBe(0);
    await page.getByLabel("Find schedules").fill("plan-99");
    await page.waitForURL("**/schedules?q=plan-99");
    await cards.filter({ hasText: "plan-99" }).waitFor();
    expect(await cards.count()).toBe(1);
    expect(await findBarriers(page)).toEqual([]);
    await page.goto(`${server.url}/workers?worker=w-71`);
    await page.locator(".worker-row").first().getByText("host-71").waitFor();
    expect(await page.locator(".worker-row").count()).toBe(24);
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole("button", { name: "Show all 100" }).click();
    await page.getByText("host-99").waitFor();
  });

  test("a page says that the server is away, stands still, and goes on once it is back", async () => {
    const page = await openPage(`${server.url}/queues`);
    await page.getByRole("heading", { name: "Queues and limits" }).waitFor();
    await page.route(/\/(v1|healthz)/, (route) => route.abort());
    await page.getByText("Connection lost. Reconnecting…").waitFor();
    await page.locator("html[data-lost]").waitFor();
    await page.unroute(/\/(v1|healthz)/);
    await page.locator("html[data-lost]").waitFor({ state: "detached" });
    await page.getByText("Connection lost. Reconnecting…").waitFor({ state: "detached" });
    // No light is green while nothing is known, and the head of an execution does not cover the notice.
    await page.goto(`${server.url}/executions/approval-7`);
    const light = page.locator(".scrubber .light");
    const colour = (): Promise<string> =>
      page.evaluate(
        "getComputedStyle(document.querySelector('.scrubber .light'), '::before').backgroundColor",
      );
    await light.getByText("live", { exact: true }).waitFor();
    const green = await colour();
    await page.route(/\/(v1|healthz)/, (route) => route.abort());
    await light.getByText("not live").waitFor();
    expect(await colour()).not.toBe(green);
    const [notice, head] = [page.locator(".connection > p"), page.locator(".execution-head")];
    const [above, below] = [await notice.boundingBox(), await head.boundingBox()];
    expect((above?.y ?? 0) + (above?.height ?? 0)).toBeLessThanOrEqual(below?.y ?? 0);
  });

  test("what a text hides is shown, and an address that cannot be read is a page", async () => {
    const tags = { long: "y".repeat(180), share: "50%" };
    const started = await server.rondo.start(odd, {}, { id: "odd-1", tags });
    await started.result().catch(() => null);
    const page = await openPage(`${server.url}/executions/odd-1?task=0`, { width: 390, height: 844 });
    await page.getByText("⟨202E⟩gpj.exe⟨0000⟩").first().waitFor();
    const isWide = "document.documentElement.scrollWidth > innerWidth";
    expect(await page.evaluate(isWide)).toBe(false);
    // The source line is in sight, however long the message is.
    const line = page.getByRole("region", { name: "Task 0" }).locator(".error-line").first();
    expect((await line.boundingBox())?.y).toBeLessThan(844);
    expect(await findBarriers(page)).toEqual([]);
    await page.setViewportSize({ width: 1_440, height: 900 });
    await page.goto(`${server.url}/executions/odd-1`);
    await page.getByText("share").waitFor();
    expect(await page.evaluate(isWide)).toBe(false);
    await page.goto(`${server.url}/executions/%E0%A4%A`);
    await page.getByText("This page does not exist.").waitFor();
  });

  test("drops dead letters of one kind, and the others stay", async () => {
    const page = await openPage(`${server.url}/dead-letters`);
    const group = page.getByRole("listitem").filter({ hasText: "no such invoice" });
    await group.getByRole("button", { name: "Dismiss…" }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Dismiss \d+ tasks$/ })
      .click();
    await group.waitFor({ state: "detached" });
    await page.getByText("was declined").waitFor();
  });

  test("runs a workflow by the form that its input's schema makes", async () => {
    const page = await openPage(`${server.url}/definitions/orphan`);
    await page.getByRole("button", { name: "Run…" }).click();
    const dialog = page.getByRole("dialog", { name: "Run orphan" });
    await dialog.getByRole("button", { name: "Run" }).click();
    // The field says it, and nothing else does.
    await dialog.getByRole("alert").getByText("This field is required.", { exact: true }).waitFor();
    expect(await dialog.getByRole("alert").count()).toBe(1);
    await dialog.getByLabel("bucket").fill("pictures");
    await dialog.getByLabel(/^Id/).fill("orphan-2");
    await dialog.getByRole("button", { name: "Run" }).click();
    await page.waitForURL("**/executions/orphan-2");
    await page.getByText("none serves").waitFor();
  });

  test("a page goes on after it was asked too often, and says so meanwhile", async () => {
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    let isTooOften = true;
    await page.route("**/v1/workers", (route) =>
      isTooOften
        ? route.fulfill({
            status: 429,
            contentType: "application/problem+json",
            body: JSON.stringify({ code: "rate_limited", detail: "too many requests", hint: "wait" }),
          })
        : route.continue(),
    );
    await page.goto(`${server.url}/workers`);
    await page.getByText("too many requests").waitFor();
    isTooOften = false;
    await page.getByText("thumbnails.resize").first().waitFor();
  });

  test("what is not there yet is looked for until it comes", async () => {
    const page = await openPage(`${server.url}/executions/later-1`);
    await page.getByText("there is no execution later-1").waitFor();
    await server.rondo.start(approval, {}, { id: "later-1" });
    await page.getByRole("button", { name: "Signal…" }).waitFor();
  });

  test("sees on the ring who has the token, whose map differs, and whose lease runs out", async () => {
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    const alone = (await (await fetch(`${server.url}/v1/ring`)).json()) as { nodes: object[] };
    const urls = ["http://one:1", "http://two:2", "http://three:3"];
    let [leftMs, isAway] = [10_000, false];
    await page.route("**/v1/ring", (route) => {
      const nodes = urls.map((url, i) => ({
        ...alone.nodes[0],
        url,
        incarnation: url,
        hash: i === 1 ? "b".repeat(16) : "a".repeat(16),
        agrees: i !== 1,
        suspect: isAway && i === 2,
        // Only the lease of one node runs out, however rarely a slow machine lets the page ask.
        leaseUntil: Date.now() + (i === 2 ? leftMs : 3_600_000),
        clockworkers: [url, urls[(i + 1) % 3]],
      }));
      const token = { epoch: 1, number: 7, maker: "x", members: urls, at: urls[2], seenAt: Date.now() };
      return route.fulfill({ json: { ...alone, url: urls[0], hash: "a".repeat(16), nodes, token } });
    });
    await page.goto(`${server.url}/ring`);
    await page
      .getByRole("img", { name: "The ring: one:1, two:2 has another map, three:3 has the token" })
      .waitFor();
    await page.getByText("differs bbbbbbbb").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    // The page's knowledge is some seconds old: a short rest alone is no missed renewal.
    leftMs = 5_000;
    const row = page.getByRole("row", { name: /^http:\/\/three:3/ });
    await row.getByText(/^[1-5] s left/).waitFor();
    [leftMs, isAway] = [9_000, true];
    await row.getByText(/not renewed: \d s left/).waitFor();
    await row.getByText("unknown").waitFor();
    leftMs = -1;
    await row.getByText(/ended$/).waitFor();
  });

  test("chooses a theme, which stays", async () => {
    const page = await openPage(server.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.keyboard.press("t");
    await page.keyboard.press("t");
    await page.locator('html[data-theme="dark"]').waitFor({ state: "attached" });
    await page.reload();
    await page.locator('html[data-theme="dark"]').waitFor({ state: "attached" });
  });

  test("who looks away costs nothing: the stream is closed, and goes on where it was", async () => {
    // It lasts for minutes, unless it is cancelled: however slow the browser is, it has not ended meanwhile.
    const flow = await server.rondo.start(thumbnails, { count: 400, ms: 30_000 }, { id: "long" });
    const page = await openPage(`${server.url}/executions/long?tab=logs`);
    const isLog = (request: { url(): string }): boolean => request.url().includes("/logs");
    await page.getByText("resizing photos/0.jpg").waitFor();
    const closed = page.waitForEvent("requestfailed", { predicate: isLog });
    await page.evaluate(
      "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))",
    );
    await closed;
    const opened = page.waitForEvent("request", { predicate: isLog });
    await page.evaluate(
      "Object.defineProperty(document, 'visibilityState', { value: 'visible', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))",
    );
    expect(await (await opened).headerValue("last-event-id")).toMatch(/^\d+\.\d+$/);
    await flow.cancel();
  });
});

describe.runIf(hasBrowser)("a new node", () => {
  test("runs its example from the first page, to its end", async () => {
    const server = await serve();
    const page = await openPage(server.url);
    await page.getByRole("button", { name: "Run the example" }).click();
    await page.waitForURL("**/executions/ex_*");
    await page.getByText("waits for the signal").waitFor();
    await page.getByRole("button", { name: "Signal…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
    await page.getByText(/^Completed in/).waitFor();
  });
});

describe.runIf(hasBrowser)("the commands on the first page", () => {
  test("make a project, and run its workflow at this node", async () => {
    const server = await serve();
    const page = await openPage(server.url);
    await page.getByRole("button", { name: "Run the example" }).waitFor();
    const commands = await page.locator(".command code").allTextContents();
    expect(commands).toHaveLength(2);
    const folder = mkdtempSync(join(tmpdir(), "rondo-first-"));
    try {
      // The commands are for the folder of the repository. Installing is linking here: the package is this one.
      const checkout = join(folder, "checkout");
      mkdirSync(checkout);
      const script = commands
        .join(" && ")
        .replaceAll(/npx rondo|node bin\/rondo\.js/g, `node ${REPOSITORY}bin/rondo.js`)
        .replace("npm install", `mkdir node_modules && ln -s ${REPOSITORY} node_modules/rondo`);
      await promisify(execFile)("bash", ["-c", script], { cwd: checkout });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    await page.getByText("Failing handlers").waitFor();
    const counts = (await (await fetch(`${server.url}/v1/counts`)).json()) as { counts: object };
    expect(counts.counts).toEqual({ done: 1 });
  });
});

describe.runIf(hasBrowser)("with tokens", () => {
  test("the page asks for one, trades it for a cookie that scripts cannot read, and signs out", async () => {
    const server = await serve({ adminToken: "an-admin-token-for-this-test" });
    const made = await fetch(`${server.url}/v1/tokens`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        authorization: "Bearer an-admin-token-for-this-test",
      },
      body: JSON.stringify({ name: "jo", role: "viewer" }),
    });
    const { token } = (await made.json()) as { token: string };
    const page = await openPage(`${server.url}/executions`);
    await page.getByLabel("Token").fill("rondo_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("This token is not valid on this server.").waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("No executions yet.").waitFor();
    expect(await page.evaluate("document.cookie")).toBe("");
    const retry = page.getByRole("button", { name: "Retry all…" });
    expect(await retry.getAttribute("title")).toBe("This needs the role operator; jo is viewer.");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
  });

  test("who is not let in any more is asked for a token again, and goes on where it was", async () => {
    const server = await serve();
    const make = async (name: string): Promise<{ id: string; token: string }> => {
      const made = await fetch(`${server.url}/v1/tokens`, {
        method: "POST",
        headers: { "content-type": "application/json", ...(admin === "" ? {} : { authorization: admin }) },
        body: JSON.stringify({ name, role: "admin" }),
      });
      return (await made.json()) as { id: string; token: string };
    };
    let admin = "";
    const [kept] = [await make("kept")];
    admin = `Bearer ${kept.token}`;
    const other = await make("other");
    const page = await openPage(`${server.url}/executions?status=failed`);
    await page.getByLabel("Token").fill(other.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    await fetch(`${server.url}/v1/tokens/${other.id}`, {
      method: "DELETE",
      headers: { authorization: admin },
    });
    await page.getByLabel("Token").waitFor();
    await page.getByLabel("Token").fill(kept.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    expect(page.url()).toBe(`${server.url}/executions?status=failed`);
  });
});
