import { expect, test } from "vitest";
import { decorate } from "../std/decorate.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { StoreFault } from "../store/store.ts";
import { withTriggerIndex, workflowsOn } from "./trigger-index.ts";

test("a crash leaves no definition without its index", async () => {
  const store = new MemoryStore();
  await store.open();
  const crashing = decorate(store, {
    putDefinition: () =>
      Promise.reject(new StoreFault("the process died here", { retryable: false, nothingWritten: true })),
  });
  const body = JSON.stringify({ rondo: 1, name: "ship", phases: [], on: [{ event: "order/paid" }] });
  const put = withTriggerIndex(crashing).putDefinition("ship", "h", body);
  await expect(put).rejects.toThrow("died here");
  // The index is only a hint: the definition decides, and there is none yet.
  expect(await workflowsOn(store, "order/paid")).toEqual(["ship"]);
  expect(await store.getDefinition({ newestOf: "ship" })).toBeNull();
});
