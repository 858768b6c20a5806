// The jobs of an operator, from the overview on: each takes at most three clicks (typing apart), and nothing opens out of sight, on a
// large screen and on a phone.
import type { Locator, Page } from "playwright-core";
import { Fatal, workflow } from "rondo";
import { connect } from "rondo/client";
import { afterAll, beforeAll, describe, test, vi } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import { approval, nightly, seed, thumbnails } from "../fixtures/dashboard/seeds-fixture.ts";
import { effort } from "../fixtures/long.ts";

const CLICKS_MAX = 3;
/** What is taller than this is in sight if this much of it is. */
const LINE_PX = 40;
const WAIT = { timeout: 20_000, interval: 100 };

/** Tasks that fail and are tolerated. */
const mails = workflow({ name: "mails" }).phase("send", {
  enumerate: () => Array.from({ length: 60 }, (_, n) => ({ n })),
  tolerate: "100%",
  retry: { attempts: 1 },
  process: ({ task }) => {
    if (task.n % 20 === 3) throw new Fatal("mailbox is full");
    return task.n;
  },
});

const naps = workflow({ name: "naps" }).sleep("night", "9h");

/** A user who clicks only what is visible without scrolling. */
class Operator {
  clicks = 0;
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  async click(what: Locator): Promise<void> {
    await this.sees(what);
    await what.click();
    if (++this.clicks > CLICKS_MAX) throw new Error(`this took ${this.clicks} clicks`);
  }

  /** Waits until something is visible without scrolling. */
  async sees(what: Locator): Promise<void> {
    await what.waitFor();
    const { width, height } = this.page.viewportSize() as { width: number; height: number };
    const isInSight = async (): Promise<boolean> => {
      const box = await what.boundingBox();
      if (box === null || box.x < 0 || box.y < 0) return false;
      return box.x + box.width <= width && box.y + Math.min(box.height, LINE_PX) <= height;
    };
    await vi.waitFor(async () => {
      if (!(await isInSight())) throw new Error(`${String(what)} is out of sight`);
    }, WAIT);
  }

  button(name: string | RegExp): Locator {
    return this.page.getByRole("button", { name, exact: typeof name === "string" }).first();
  }

  get dialog(): Locator {
    return this.page.getByRole("dialog");
  }

  /** Opens the search, types, and takes the first match of this name. */
  async goTo(text: string, option: string | RegExp): Promise<void> {
    await this.click(
      this.page
        .getByRole("button", { name: /^Search/ })
        .filter({ visible: true })
        .first(),
    );
    await this.page.getByRole("combobox").fill(text);
    await this.page.getByRole("option", { name: option, selected: true }).waitFor();
    await this.page.keyboard.press("Enter");
  }
}

const isLong = effort({ usual: 0, long: 1 }) === 1;

describe.runIf(hasBrowser)("an operator at 3 a.m.", () => {
  let server: RondoServer;
  let client: ReturnType<typeof connect>;
  afterAll(() => client.close());
  beforeAll(async () => {
    server = await serve();
    await seed(server);
    server.rondo.serve(mails, naps);
    await (await server.rondo.start(mails, {}, { id: "mails-1" })).result();
    await server.rondo.start(thumbnails, { count: 400, ms: 30_000 }, { id: "busy-1" });
    client = connect({ url: server.url });
    await client.serve(nightly);
  });

  describe.each([
    [1_440, 900],
    [390, 844],
  ])("at %i x %i", (width, height) => {
    let jobs = 0;
    // Each job is done at one of the sizes, in turn; with RONDO_TEST_LONG=1 at both.
    const isTurn = (): boolean => isLong || (jobs++ % 2 === 0) === width > 1_000;
    const open = async (): Promise<Operator> => {
      const page = await openPage(server.url, { width, height });
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      return new Operator(page);
    };

    test.runIf(isTurn())("sees why something waits, and which executions", async () => {
      const user = await open();
      await user.click(user.page.locator(".attention").getByRole("link", { name: /orphan.work/ }));
      await user.sees(user.page.getByText("no worker").first());
      await user.click(user.page.getByRole("link", { name: "orphan.work" }).first());
      await user.sees(user.page.getByText('waits for a worker: none serves "orphan.work" now').first());
    });

    test.runIf(isTurn())("finds the failed tasks, their error and its source line", async () => {
      const user = await open();
      await user.click(user.page.locator(".attention").getByRole("link", { name: /mails/ }));
      await user.sees(user.page.getByText(/operator-jobs\.test\.ts:\d+/).first());
      await user.click(user.page.getByRole("link", { name: "23", exact: true }));
      const task = user.page.getByRole("region", { name: "Task 23" });
      await user.sees(task.getByText("mailbox is full").first());
      await user.sees(task.getByText(/operator-jobs\.test\.ts:\d+/).first());
    });

    test.runIf(isTurn())("retries a group of failed tasks that were tolerated", async () => {
      const user = await open();
      await user.click(user.page.locator(".attention").getByRole("link", { name: /mails/ }));
      const group = user.page.getByRole("listitem").filter({ hasText: "mailbox is full" }).first();
      await user.click(group.getByRole("button", { name: "Retry…" }));
      await user.click(user.dialog.getByRole("button", { name: "Retry 3 tasks" }));
      await user.sees(user.page.getByText("3 tasks of 1 execution will run again."));
    });

    test.runIf(isTurn())("cancels all executions with a tag", async () => {
      const tag = `size=${width}`;
      for (let i = 0; i < 3; i++) await server.rondo.start(naps, {}, { tags: { size: String(width) } });
      const user = await open();
      await user.click(user.page.getByRole("link", { name: /^\d+ running/ }));
      await user.page.getByRole("searchbox").fill(tag);
      await user.page.getByText("3 executions", { exact: true }).waitFor();
      await user.click(user.button("Cancel all…"));
      await user.click(user.dialog.getByRole("button", { name: "Cancel 3" }));
      await user.sees(user.page.getByText("3 executions cancelled."));
    });

    test.runIf(isTurn())("cancels one execution", async () => {
      const id = `nap-${width}`;
      await server.rondo.start(naps, {}, { id });
      const user = await open();
      await user.goTo(id, new RegExp(`${id} (naps|approval)$`));
      await user.click(user.button("Cancel…"));
      await user.click(user.dialog.getByRole("button", { name: "Cancel the execution" }));
      await user.page.locator(".execution-line .badge", { hasText: "cancelled" }).waitFor();
    });

    test.runIf(isTurn())("sends the signal that an execution waits for", async () => {
      const id = `approval-${width}`;
      await server.rondo.start(approval, {}, { id });
      const user = await open();
      await user.goTo(id, new RegExp(`${id} (naps|approval)$`));
      await user.click(user.button("Send approved…"));
      await user.dialog.getByLabel("by").fill("jo");
      await user.click(user.dialog.getByRole("button", { name: "Send" }));
      await user.sees(user.page.getByText(/^Completed in/));
    });

    test.runIf(isTurn())("runs a workflow by its form", async () => {
      const user = await open();
      await user.goTo("orphan", "orphan workflow");
      await user.click(user.button("Run…"));
      await user.dialog.getByLabel("bucket").fill("pictures");
      await user.click(user.dialog.getByRole("button", { name: "Run" }));
      await user.page.waitForURL("**/executions/*");
    });

    test.runIf(isTurn())("pauses a schedule", async () => {
      const user = await open();
      await user.goTo("go to schedules", "Go to Schedules");
      const card = user.page.locator(".schedule").filter({ hasText: "nightly" });
      await user.click(card.getByRole("button", { name: "Pause…" }));
      await user.click(user.dialog.getByRole("button", { name: "Pause" }));
      await card.getByRole("button", { name: "Resume" }).click();
      await card.getByRole("button", { name: "Pause…" }).waitFor();
    });

    test.runIf(isTurn())("edits a schedule", async () => {
      const user = await open();
      await user.goTo("go to schedules", "Go to Schedules");
      const card = user.page.locator(".schedule").filter({ hasText: "nightly" });
      await user.click(card.getByRole("button", { name: "Edit…" }));
      await user.dialog.getByLabel(/^Cron/).fill(width > 1_000 ? "30 5 * * *" : "15 4 * * *");
      await user.click(user.dialog.getByRole("button", { name: "Save" }));
      await user.sees(card.getByText(width > 1_000 ? "Every day at 05:30" : "Every day at 04:15"));
    });

    test.runIf(isTurn())("starts what a schedule has missed", async () => {
      const id = `report-${width}`;
      const body = JSON.stringify({ id, workflow: "naps", cron: "0 * * * *" });
      const headers = { "content-type": "application/json" };
      await fetch(`${server.url}/v1/schedules`, { method: "POST", headers, body });
      const user = await open();
      await user.goTo(id, `${id} schedule`);
      const card = user.page.locator(".schedule").filter({ hasText: id });
      await user.click(card.getByRole("button", { name: "Backfill…" }));
      await user.click(user.dialog.getByRole("button", { name: /^Start 2\d executions$/ }));
      await user.sees(user.page.getByText(/^2\d executions started\.$/));
    });

    test.runIf(isTurn())("finds executions by a tag and by the text of an error", async () => {
      const user = await open();
      await user.click(user.page.getByRole("link", { name: /^\d+ done/ }));
      await user.page.getByRole("searchbox").fill("day=2026-11-14");
      await user.page.getByText("1 execution", { exact: true }).waitFor();
      await user.sees(user.page.getByRole("link", { name: "thumbs-4", exact: true }));
      await user.page.getByRole("searchbox").fill("mailbox");
      await user.click(
        user.page.getByRole("link", { name: /tasks of mails failed with Fatal: mailbox is full/ }),
      );
      await user.sees(user.page.getByText("mailbox is full").first());
    });

    test.runIf(isTurn())("pauses a queue", async () => {
      const user = await open();
      await user.click(user.page.locator(".attention").getByRole("link", { name: /orphan.work/ }));
      await user.click(user.button("Pause orphan.work"));
      await user.click(user.dialog.getByRole("button", { name: "Pause" }));
      await user.page.getByRole("button", { name: "Resume orphan.work" }).click();
      await user.button("Pause orphan.work").waitFor();
    });

    test.runIf(isTurn())("drains a worker", async () => {
      const user = await open();
      await user.goTo("go to workers", "Go to Workers");
      await user.click(user.button("Drain…"));
      await user.sees(user.dialog.getByRole("button", { name: "Drain" }));
    });

    test.runIf(isTurn())("sees an earlier state", async () => {
      const user = await open();
      await user.goTo("thumbs-3", /thumbs-3 thumbnails$/);
      await user.click(user.button(/Previous event/));
      await user.sees(user.button("Back to now"));
    });

    test.runIf(isTurn())("follows the log", async () => {
      const user = await open();
      await user.goTo("busy-1", /busy-1 thumbnails$/);
      await user.click(user.page.getByRole("tab", { name: "Logs" }));
      await user.sees(user.page.getByText("resizing photos/0.jpg").first());
    });

    test.runIf(isTurn())("goes from a parent to its child and back", async () => {
      const user = await open();
      await user.goTo("family-1", /family-1 family$/);
      await user.click(user.page.getByRole("link", { name: /family-1~/ }).first());
      await user.click(user.page.getByRole("link", { name: "family-1", exact: true }));
      await user.page.waitForURL("**/executions/family-1?*");
    });
  });
});
