// What the code of an execution says while it runs, on its page: published values and streams.
import type { Request } from "playwright-core";
import { Fatal, flow, workflow } from "rondo";
import { beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { findBarriers, hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";

const agent = flow("agent", async ({ step, stream, waitFor, publish }) => {
  const answer = stream("answer");
  await step("draft", async () => {
    publish({ percent: 40 });
    await answer.write("The order ");
    await stream("calls").write({ tool: "find order" });
    await answer.write("is lost.");
  });
  await waitFor("approved");
  await step("end", async () => {
    publish({ percent: 100 });
    await answer.write(" It is refunded.");
  });
});

let isRefused = true;
const shaky = workflow({ name: "shaky" }).phase("call", {
  process: ({ log }) => {
    log.info(isRefused ? "calling for the first time" : "calling again");
    if (isRefused) throw new Fatal("the call was refused");
  },
});

const quiet = flow("quiet", ({ step }) => step("one", () => 1));

describe.runIf(hasBrowser)("an execution that talks", () => {
  let server: RondoServer;
  beforeAll(async () => {
    server = await serve();
    server.rondo.serve(agent, quiet, shaky);
  });

  test.each([
    [1_440, 900],
    [390, 844],
  ])(
    "shows published values and streams live, and later from the start, at %i x %i",
    async (width, height) => {
      const id = `agent-${width}`;
      const execution = await server.rondo.start(agent, null, { id });
      const address = `${server.url}/executions/${id}?tab=data`;
      const page = await openPage(address, { width, height });
      const text = page.getByLabel("Stream answer");
      const values = page.getByLabel("Published values", { exact: true });
      await text.filter({ hasText: /^The order is lost\.$/ }).waitFor();
      await values.filter({ hasText: '"percent": 40' }).waitFor();
      await page.getByRole("button", { name: "calls", exact: true }).click();
      await page.getByLabel("Stream calls").filter({ hasText: '{"tool":"find order"}' }).waitFor();
      await page.goBack();
      await text.waitFor();
      expect(await findBarriers(page)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      await execution.signal("approved");
      await text.filter({ hasText: /^The order is lost\. It is refunded\.$/ }).waitFor();
      await values.filter({ hasText: '"percent": 100' }).waitFor();
      await execution.result();
      await page.goto(address);
      await text.filter({ hasText: /^The order is lost\. It is refunded\.$/ }).waitFor();
      await page.getByText("complete", { exact: true }).waitFor();
    },
  );

  test("that is retried after its end has its log followed again", async () => {
    const execution = await server.rondo.start(shaky, {}, { id: "shaky-1" });
    await execution.result().catch(() => null);
    const page = await openPage(`${server.url}/executions/shaky-1?tab=logs`);
    await page.getByText("calling for the first time").first().waitFor();
    await page.getByText("complete", { exact: true }).waitFor();
    isRefused = false;
    await execution.retry();
    await page.getByText("calling again").first().waitFor();
  });

  test("that says nothing has neither of them", async () => {
    await (await server.rondo.start(quiet, null, { id: "quiet-1" })).result();
    const page = await openPage(server.url);
    // Chromium reports a stream that has ended as either of these.
    const listed = new Promise<void>((resolve) => {
      const note = (request: Request): void => {
        if (request.url().endsWith("/quiet-1/streams")) resolve();
      };
      page.on("requestfinished", note).on("requestfailed", note);
    });
    await page.goto(`${server.url}/executions/quiet-1?tab=data`);
    await listed;
    await page.getByRole("heading", { name: "Output" }).waitFor();
    expect(await page.getByRole("heading", { name: /Published|Streams/ }).count()).toBe(0);
  });
});
