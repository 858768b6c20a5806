// What people do on the overview and the pages of executions, errors, workflows, schedules, workers, alerts and the ring.
import { beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import { invoices, nightly, seed } from "../fixtures/dashboard/seeds-fixture.ts";

const PATIENCE = { timeout: 30_000 };

describe.runIf(hasBrowser)("a user, on the pages of lists", () => {
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

  test("sees the phases of a workflow as a graph, with its figures", async () => {
    const page = await openPage(`${server.url}/definitions/family`);
    const trips = page.getByRole("region", { name: "Phase trips" });
    await trips.getByText("1 execution here").waitFor();
    await page.getByRole("region", { name: "Phase plan" }).getByText("3 tasks, 100 %").waitFor();
    await page.getByRole("button", { name: "7 days" }).click();
    await page.waitForURL("**over=7d");
    await page.getByRole("cell", { name: "invoices" }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    // Durations are in words, and the last runs say what they wait for.
    await page.goto(`${server.url}/definitions/approval`);
    await page.getByRole("region", { name: "Phase cool-off" }).getByText("sleeps 1 s").waitFor();
    const wait = page.getByRole("region", { name: "Phase approved" });
    await wait.getByText("waits for the signal approved").waitFor();
    await wait.getByText("timeout 2 d").waitFor();
    await page.locator(".last-runs").getByText("needs a signal").waitFor();
    await page.goto(`${server.url}/definitions`);
    await page.getByRole("table").getByText("0 %", { exact: true }).waitFor();
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

  test("goes from a queue to the executions that wait in it, whatever its handler is called", async () => {
    const page = await openPage(`${server.url}/queues`);
    const post = (path: string, body: unknown): Promise<Response> => {
      const headers = { "content-type": "application/json" };
      return fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    };
    const starts = ["frames", "films"].map((name) => async () => {
      const handlers = { render: { use: "RENDER_FRAMES", tasks: [1], concurrency: 2 } };
      await post("/v1/workflows", { rondo: 1, name, phases: [{ name: "render", handlers }] });
      await post("/v1/executions", { workflow: name, id: `${name}-1` });
    });
    await starts[0]?.();
    await page.getByRole("link", { name: "RENDER_FRAMES", exact: true }).click();
    await page.waitForURL("**/executions?workflow=frames&status=running");
    await page.getByRole("link", { name: "frames-1" }).waitFor();
    await starts[1]?.();
    await page.goto(`${server.url}/queues`);
    const row = page.getByRole("row").filter({ hasText: "RENDER_FRAMES" }).first();
    await row.getByRole("link", { name: "frames" }).waitFor();
    await row.getByRole("link", { name: "films" }).click();
    await page.getByRole("link", { name: "films-1" }).waitFor();
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

  test("comes back from an execution to the place in the list", async () => {
    const page = await openPage(`${server.url}/executions`, { height: 500 });
    const table = page.locator(".table");
    const top = (): Promise<number> => table.evaluate((box) => box.scrollTop);
    await table.getByRole("link").first().waitFor();
    await table.evaluate((box) => box.scrollTo(0, 400));
    // In one step, and without the scrolling of a click: the list may get other rows meanwhile.
    const id = await table.evaluate((box) => {
      const { top } = box.getBoundingClientRect();
      const links = [...box.querySelectorAll("a[href^='/executions/']")];
      const link = links.find((one) => one.getBoundingClientRect().top > top + 60);
      link.click();
      return link.textContent;
    });
    await page.waitForURL(`**/executions/${id}`);
    await page.getByRole("tab", { name: "Logs" }).waitFor();
    expect(await page.evaluate("scrollY")).toBe(0);
    await page.goBack();
    await page.getByRole("link", { name: id, exact: true }).waitFor();
    await expect.poll(top, PATIENCE).toBe(400);
    // A date that does not exist is no date.
    await page.goto(`${server.url}/executions?since=2026-99-99`);
    await table.getByRole("link").first().waitFor();
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

  test("is proposed a range of the past with as many due times as can be started at a time", async () => {
    const body = JSON.stringify({
      id: "minutely",
      workflow: "thumbnails",
      input: { count: 1 },
      cron: "* * * * *",
    });
    const headers = { "content-type": "application/json" };
    await fetch(`${server.url}/v1/schedules`, { method: "POST", headers, body });
    await fetch(`${server.url}/v1/schedules/minutely/pause`, { method: "POST" });
    const page = await openPage(`${server.url}/schedules?q=minutely`);
    await page.getByRole("button", { name: "Backfill…" }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Start 36\d executions$/ })
      .waitFor();
    expect(await page.getByRole("dialog").getByRole("alert").count()).toBe(0);
  });

  test("finds one of more schedules than the page loads", async () => {
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    const [sample] = ((await (await fetch(`${server.url}/v1/schedules`)).json()) as { data: object[] }).data;
    const asked: string[] = [];
    await page.route("**/v1/schedules?*", (route) => {
      const q = new URL(route.request().url()).searchParams.get("q") ?? "";
      asked.push(q);
      const ids =
        q === "" ? Array.from({ length: 500 }, (_, i) => `plan-${i}`) : q === "plan-99" ? ["plan-9999"] : [];
      return route.fulfill({
        json: { data: ids.map((id) => ({ ...sample, id })), next: q === "" ? "plan-499" : null },
      });
    });
    await page.goto(`${server.url}/schedules`);
    await page.getByText("24 of more than 500 schedules.").waitFor();
    await page.getByRole("searchbox", { name: "Find schedules" }).fill("plan-99");
    await page.getByText("plan-9999").waitFor();
    expect(await page.locator(".schedule").count()).toBe(1);
    await page.getByRole("searchbox", { name: "Find schedules" }).fill("nothing");
    await page.getByText("No schedules match.").waitFor();
    expect(new Set(asked)).toEqual(new Set(["", "plan-99", "nothing"]));
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("plan-99");
    await page.getByRole("option", { name: "plan-9999 schedule" }).waitFor();
  });

  test("sees the error of a large group without scrolling, and each execution once", async () => {
    const body = Array.from({ length: 20 }, (_, i) => ({
      ...{ id: `l-${i}`, execution: `big-${i % 2}`, workflow: "invoices", project: "default", seq: i },
      ...{ phase: "charge", visit: 1, handler: "charge", at: 1, count: 3 },
      tasks: [0, 1, 2].map((n) => ({
        n: i * 3 + n,
        attempts: 1,
        error: { name: "Fatal", message: "no card" },
      })),
    }));
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    await page.route("**/v1/dead-letters?*", (route) => route.fulfill({ json: { data: body, next: null } }));
    await page.goto(`${server.url}/dead-letters`);
    const group = page.getByRole("listitem").filter({ hasText: "was declined" }).first();
    await group.getByRole("button", { name: /was declined/ }).click();
    await group.getByRole("link", { name: "and 22 more" }).first().waitFor();
    expect(await group.getByRole("row").count()).toBe(3);
    const error = await group.locator(".error-view").boundingBox();
    const table = await group.getByRole("table").boundingBox();
    expect(error?.y).toBeLessThan(table?.y ?? 0);
    expect(await findBarriers(page)).toEqual([]);
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
    // Each of several missing fields says it.
    const input = { type: "object", required: ["from", "to"], properties: { from: { type: "string" } } };
    const properties = { ...input.properties, to: { type: "number" } };
    const phases = [{ name: "work", handlers: { work: { use: "moves.work", tasks: [1] } } }];
    const body = JSON.stringify({ rondo: 1, name: "moves", input: { ...input, properties }, phases });
    const headers = { "content-type": "application/json" };
    await fetch(`${server.url}/v1/workflows`, { method: "POST", headers, body });
    await page.goto(`${server.url}/definitions/moves`);
    await page.getByRole("button", { name: "Run…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
    await expect.poll(() => page.getByText("This field is required.").count(), PATIENCE).toBe(2);
    await page.goto(`${server.url}/definitions/orphan`);
    await page.getByRole("button", { name: "Run…" }).click();
    await dialog.getByLabel("bucket").fill("pictures");
    await dialog.getByLabel(/^Id/).fill("orphan-2");
    await dialog.getByRole("button", { name: "Run" }).click();
    await page.waitForURL("**/executions/orphan-2");
    await page.getByText("none serves").waitFor();
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
});
