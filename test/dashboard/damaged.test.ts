// An execution whose journal cannot be read, on the pages of the dashboard.
import { expect, test } from "vitest";
import { checkedEntry } from "../../src/kernel/journal/journal-entry.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import type { LoadedExecution } from "../../src/store/store.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import { approval } from "../fixtures/dashboard/seeds-fixture.ts";

/** A store that garbles the journals that it loads, once it is told to. */
class GarblingStore extends MemoryStore {
  isGarbling = false;

  override async load(...given: Parameters<MemoryStore["load"]>): Promise<(LoadedExecution | null)[]> {
    const loaded = await super.load(...given);
    if (!this.isGarbling) return [...loaded];
    return loaded.map((one) =>
      one === null
        ? null
        : {
            ...one,
            entries: one.entries.map((entry) => checkedEntry({ ...entry, body: "?" }, one.head.id)),
          },
    );
  }
}

test.runIf(hasBrowser)("a damaged execution says what it is, and is deleted from its page", async () => {
  const store = new GarblingStore();
  // Nothing that waits stays in memory: it is loaded again.
  const server = await serve({ store, settings: { idleMax: 0 }, onFault: () => {} });
  server.rondo.serve(approval);
  await server.rondo.start(approval, {}, { id: "broken-1" });
  const { data } = (await (await fetch(`${server.url}/v1/executions`)).json()) as { data: unknown[] };
  expect(data).toHaveLength(1);
  store.isGarbling = true;
  const page = await openPage(`${server.url}/executions/broken-1`);
  await page.locator(".execution-line .badge", { hasText: "damaged" }).waitFor();
  await page.getByText("Its journal cannot be read, so its tasks and its progress are unknown.").waitFor();
  // Nothing on the page looks alive.
  expect(await page.locator(".light.ok").count()).toBe(0);
  expect(await page.getByText("Running for").count()).toBe(0);
  expect(await findBarriers(page)).toEqual([]);
  await page.getByRole("button", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete this damaged execution?" });
  await dialog.getByLabel(/^Reason/).fill("disk failure");
  await dialog.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("No executions yet.").waitFor();
  await page.goto(`${server.url}/settings?tab=audit`);
  await page.getByRole("row", { name: /execution.drop broken-1 disk failure/ }).waitFor();
});
