// What people do on the page of one execution.
import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import {
  approval,
  invoices,
  seed,
  shaky,
  thumbnails,
  unpriced,
} from "../fixtures/dashboard/seeds-fixture.ts";

const PATIENCE = { timeout: 30_000 };

describe.runIf(hasBrowser)("a user, on the page of an execution", () => {
  let server: RondoServer;
  beforeAll(async () => {
    server = await serve();
    await seed(server);
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

  test("saves its events and tasks as files, and copies the commands that print the events", async () => {
    const page = await openPage(`${server.url}/executions/invoices-3?tab=events`);
    const textOf = async (button: string): Promise<string> => {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: button }).click(),
      ]);
      return readFileSync(await download.path(), "utf8");
    };
    const lines = (await textOf("Download events")).trimEnd().split("\n");
    const events = lines.map((line) => JSON.parse(line) as { seq: number; kind: string });
    const { revision } = await server.rondo.execution("invoices-3").describe();
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: revision }, (_, i) => i + 1));
    expect(events[0]?.kind).toBe("workflow.created");
    await page.evaluate("navigator.clipboard.writeText = async (text) => void (globalThis.copied = text)");
    await page.getByRole("button", { name: "Copy as command" }).click();
    expect(await page.evaluate("copied")).toBe("rondo events 'invoices-3' --full --json");
    await page.getByRole("button", { name: "Copy as curl" }).click();
    const url = /^curl '(.*)'$/.exec(await page.evaluate("copied"))?.[1];
    const { data } = (await (await fetch(String(url))).json()) as { data: unknown[] };
    expect(data).toEqual(events);
    await page.getByRole("tab", { name: "Tasks" }).click();
    const [heads, ...rows] = (await textOf("Download CSV")).trimEnd().split("\r\n");
    expect(heads).toBe("task,status,attempts,ms,worker,result,error");
    const [handler] = (await server.rondo.execution("invoices-3").describe()).phases[0]?.handlers ?? [];
    expect(rows).toHaveLength(handler?.total ?? -1);
    expect(rows[3]).toMatch(/^3,failed,\d+,\d+,.*,,.*card of customer 3 was declined/);
    expect(await findBarriers(page)).toEqual([]);
  });

  test("sees the page below the head, however many tags there are", async () => {
    const tags = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`tag${i}`, `value ${i}`]));
    await server.rondo.start(approval, {}, { id: "tagged", tags });
    const page = await openPage(`${server.url}/executions/tagged`);
    const tab = page.getByRole("tab", { name: "Tasks" });
    await tab.waitFor();
    await page.getByRole("link", { name: "value 5", exact: true }).waitFor();
    expect((await tab.boundingBox())?.y).toBeLessThan(600);
    expect(await page.getByRole("link", { name: "value 6", exact: true }).count()).toBe(0);
    expect(await findBarriers(page)).toEqual([]);
    await page.getByRole("button", { name: "54 more tags" }).click();
    await page.getByRole("link", { name: "value 59", exact: true }).waitFor();
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

  test("what is not there yet is looked for until it comes", async () => {
    const page = await openPage(`${server.url}/executions/later-1`);
    await page.getByText("there is no execution later-1").waitFor();
    await server.rondo.start(approval, {}, { id: "later-1" });
    await page.getByRole("button", { name: "Signal…" }).waitFor();
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

  test("a log whose stream was ended by a server that stops goes on at the next one", async () => {
    const flow = await server.rondo.start(thumbnails, { count: 400, ms: 30_000 }, { id: "ended" });
    const page = await openPage(server.url);
    const asked: (string | undefined)[] = [];
    await page.route(/ended\/logs/, (route) => {
      asked.push(route.request().headers()["last-event-id"]);
      const line = { id: "1.0", at: 1, level: "info", phase: "resize", visit: 1, handler: "resize", task: 0 };
      const body = `id: 1.0\ndata: ${JSON.stringify({ ...line, attempt: 1, text: "before the stop" })}\n\n`;
      if (asked.length > 1) return route.continue();
      return route.fulfill({ contentType: "text/event-stream", body });
    });
    await page.goto(`${server.url}/executions/ended?tab=logs`);
    await page.getByText("before the stop").waitFor();
    await page.locator(".details .light").getByText("live", { exact: true }).waitFor();
    expect(asked).toEqual([undefined, "1.0"]);
    await flow.cancel();
  });

  test("opens source lines and traces where the user wants them", async () => {
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    await page.getByLabel("Open source lines in").selectOption("VS Code");
    const address = page.getByLabel(/^Address of a trace/);
    await address.fill("javascript:alert(1)//{traceId}");
    await address.blur();
    await page.getByText("The address begins with http:// or https://.").waitFor();
    await address.fill("https://traces.example/{traceId}");
    await address.blur();
    expect(await findBarriers(page)).toEqual([]);
    const trace = "0af7651916cd43dd8448eb211c80319c";
    const headers = { "content-type": "application/json", traceparent: `00-${trace}-b7ad6b7169203331-01` };
    const body = JSON.stringify({ workflow: "nightly", input: { count: 3 }, id: "traced-1" });
    await fetch(`${server.url}/v1/executions`, { method: "POST", headers, body });
    await page.goto(`${server.url}/executions/traced-1?task=2`);
    await page.locator(`a[href="https://traces.example/${trace}"]`).waitFor();
    const line = page.getByRole("region", { name: "Task 2" }).locator(".error-line a").first();
    expect(await line.getAttribute("href")).toMatch(/^vscode:\/\/file\/.*seeds-fixture\.ts:\d+:\d+$/);
  });
});
