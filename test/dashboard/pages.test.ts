// Every page, light and dark, wide and narrow, with something to show and with nothing: it is drawn, without barriers,
// under the strict policy.
import { beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import { seed } from "../fixtures/dashboard/seeds-fixture.ts";

const PAGES: readonly [path: string, shows: string][] = [
  ["/", "Failing handlers"],
  ["/executions", "family-1"],
  ["/executions?status=failed", "nightly-2026-11-15"],
  ["/executions/thumbs-3", "Timeline"],
  ["/executions/invoices-3?task=3", "card of customer 3 was declined"],
  ["/executions/thumbs-3?tab=logs", "publishing to mail"],
  ["/executions/thumbs-3?tab=data", "Input"],
  ["/executions/thumbs-3?tab=events&at=5", "Ignored messages"],
  ["/executions/thumbs-3?tab=steps", "no script runs"],
  ["/executions/embed-1?tab=commands", "proc"],
  ["/executions/sums-1?tab=steps", "double"],
  ["/executions/family-1", "child runs"],
  ["/workers", "thumbnails.resize"],
  ["/ring", "Single node"],
  ["/queues", "orphan.work"],
  ["/schedules", "Europe/Berlin"],
  ["/dead-letters", "was declined"],
  ["/definitions", "thumbnails"],
  ["/definitions/thumbnails", "success rate"],
  ["/definitions/family", "1 execution here"],
  ["/alerts", "No rules yet."],
  ["/settings", "Effective configuration"],
  ["/settings?tab=tokens", "There is no token"],
  ["/settings?tab=audit", "schedule.put"],
  ["/settings?tab=appearance", "Theme"],
  ["/executions/not-there", "there is no execution not-there"],
];

const EMPTY: readonly [path: string, shows: string][] = [
  ["/", "No executions yet"],
  ["/executions", "No executions yet."],
  ["/workers", "No worker is connected"],
  ["/queues", "No limits in use."],
  ["/schedules", "No schedules yet"],
  ["/dead-letters", "No failed tasks."],
  ["/definitions", "No workflows yet."],
];

describe.runIf(hasBrowser)("with something to show", () => {
  let server: RondoServer;
  beforeAll(async () => {
    server = await serve();
    await seed(server);
  });

  test("every page is there, without barriers in light and in dark", async () => {
    const page = await openPage(server.url);
    for (const [path, shows] of PAGES) {
      await page.emulateMedia({ colorScheme: "light" });
      await page.goto(server.url + path);
      await page.getByText(shows).first().waitFor();
      expect([path, await findBarriers(page)]).toEqual([path, []]);
      // What differs between the themes is colours.
      await page.emulateMedia({ colorScheme: "dark" });
      await page.locator("html[data-theme=dark]").waitFor();
      expect([path, await findBarriers(page, ["color-contrast"])]).toEqual([path, []]);
    }
  }, 180_000);

  test("on a phone nothing is wider than the screen", async () => {
    const page = await openPage(server.url, { theme: "dark", width: 390, height: 844 });
    for (const [path, shows] of PAGES) {
      await page.goto(server.url + path);
      await page.getByText(shows).first().waitFor();
      expect([path, await page.evaluate("document.documentElement.scrollWidth <= 390")]).toEqual([
        path,
        true,
      ]);
    }
  }, 120_000);
});

describe.runIf(hasBrowser)("with nothing to show", () => {
  let server: RondoServer;
  beforeAll(async () => {
    server = await serve();
  });

  test("every page says so", async () => {
    const page = await openPage(server.url);
    for (const [path, shows] of EMPTY) {
      await page.goto(server.url + path);
      await page.getByText(shows).first().waitFor();
      expect([path, await findBarriers(page)]).toEqual([path, []]);
    }
  });
});
