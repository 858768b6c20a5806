// What all pages share: keyboard, palette, theme, connection, odd texts, the first steps, signing in.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import { odd, seed } from "../fixtures/dashboard/seeds-fixture.ts";

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));

describe.runIf(hasBrowser)("a user, on any page", () => {
  let server: RondoServer;
  beforeAll(async () => {
    server = await serve();
    await seed(server);
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

  test("a page that asks for nothing, or whose requests hang, says too that the server is away", async () => {
    const page = await openPage(`${server.url}/settings?tab=appearance`);
    await page.getByLabel("Open source lines in").waitFor();
    // No request is answered or refused: the server is stopped, or the network drops everything.
    await page.route(/\/(v1|healthz)/, () => {});
    await page.getByText("Connection lost. Reconnecting…").waitFor();
    await page.unrouteAll();
    await page.getByText("Connection lost. Reconnecting…").waitFor({ state: "detached" });
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
    // Names as long as they may be, without a space.
    const id = "i".repeat(200);
    await server.rondo.start(odd, {}, { id, tags: { ["t".repeat(100)]: "v".repeat(200) } });
    for (const width of [1_440, 390]) {
      await page.setViewportSize({ width, height: 844 });
      await page.goto(`${server.url}/executions/${id}`);
      await page.getByText("v".repeat(200)).waitFor();
      expect(await page.evaluate(isWide)).toBe(false);
    }
    await page.goto(`${server.url}/executions/%E0%A4%A`);
    await page.getByText("This page does not exist.").waitFor();
    await page.goto(`${server.url}/executions/${"a".repeat(3_000)}`);
    await page.getByText("is not an execution id").waitFor();
    expect(await page.evaluate(isWide)).toBe(false);
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

  test("chooses a theme, which stays", async () => {
    const page = await openPage(server.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.keyboard.press("t");
    await page.keyboard.press("t");
    await page.locator('html[data-theme="dark"]').waitFor({ state: "attached" });
    await page.reload();
    await page.locator('html[data-theme="dark"]').waitFor({ state: "attached" });
  });
});

describe.runIf(hasBrowser)("a new node", () => {
  test("runs its example from the first page, to its end", async () => {
    const server = await serve();
    const page = await openPage(server.url);
    await page.getByRole("button", { name: "Run the example" }).click();
    await page.waitForURL("**/executions/ex_*");
    await page.getByText("waits for the signal").first().waitFor();
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
    const linked = await openPage(`${server.url}/executions#token=rondo_wrong`);
    await linked.getByText("This token is not valid on this server.").waitFor();
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
