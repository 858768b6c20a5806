// A store that takes no writes: the server says so, answers within a bound, and what waited is done when it comes back.
import { expect, test } from "vitest";
import { RemoteRondo } from "../../src/client/connect.ts";
import { type Clock, systemClock } from "../../src/std/clock.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { type Commit, type CommitVerdict, StoreFault } from "../../src/store/store.ts";
import { serve, until } from "../fixtures/server/api-fixture.ts";
import { idle } from "../fixtures/server/api-workflows.ts";

/** A disk that can be full. */
class FullStore extends MemoryStore {
  isFull = false;

  override commit(commit: Commit): Promise<CommitVerdict> {
    if (!this.isFull) return super.commit(commit);
    return Promise.reject(new StoreFault("the disk is full", { retryable: true, nothingWritten: true }));
  }
}

/** A database that gives no answer about documents of one kind, while its commits are written. */
class SilentStore extends MemoryStore {
  silent = "";
  #speak = (): void => {};
  readonly #spoken = new Promise<void>((resolve) => {
    this.#speak = resolve;
  });

  speak(): void {
    this.silent = "";
    this.#speak();
  }

  override async getDocument(kind: string, id: string): Promise<string | null> {
    if (kind === this.silent) await this.#spoken;
    return super.getDocument(kind, id);
  }
}

test.each(["idempotency-key", "schedule"])(
  "a request is answered in time though the store does not answer about a document: %s",
  async (kind) => {
    const store = new SilentStore();
    const api = await serve({ store, clock: hurried() });
    await api.post("/v1/workflows", idle);
    const schedule = { id: "s", workflow: "idle", input: { bucket: "b" }, cron: "0 0 1 1 *" };
    expect((await api.post("/v1/schedules", schedule)).status).toBe(201);
    store.silent = kind;
    const run = () => api.post("/v1/schedules/s/run", {}, { headers: { "idempotency-key": "k" } });
    expect((await run()).body).toMatchObject({
      code: "timeout",
      detail: "there was no answer within 60000 ms",
      hint: "check whether the request was applied, or repeat it with the same id or Idempotency-Key: it is not applied twice",
    });
    store.speak();
    const ran = await run();
    const again = await run();
    expect([again.status, again.body["execution"]]).toEqual([200, ran.body["execution"]]);
    expect((await api.get("/v1/executions")).body["data"]).toHaveLength(1);
  },
);

/** Waits are fifty times as short. */
function hurried(): Clock {
  const clock = systemClock({ hold: true });
  return { ...clock, after: (ms, run) => clock.after(ms / 50, run) };
}

test("a start is answered while the disk is full, and is done, once, when there is room again", async () => {
  const store = new FullStore();
  const api = await serve({ store, clock: hurried() });
  await api.post("/v1/workflows", idle);
  expect((await api.get("/readyz")).status).toBe(200);
  store.isFull = true;
  const start = { workflow: "idle", id: "a", input: { bucket: "b" } };
  const refused = await api.post("/v1/executions", start);
  expect(refused.body).toMatchObject({
    code: "store_unavailable",
    status: 503,
    detail: "the store takes no writes just now (the disk is full); the request may still be applied",
    hint: "check whether the request was applied, or repeat it with the same id or Idempotency-Key: it is not applied twice",
  });
  expect(refused.headers.get("retry-after")).toBe("5");
  const ready = await api.get("/readyz");
  expect([ready.status, ready.body["detail"]]).toEqual([503, "the store takes no writes: the disk is full"]);
  expect((await api.get("/healthz")).status).toBe(200);
  expect((await api.get("/v1/executions")).body["data"]).toEqual([]);
  store.isFull = false;
  await until(async () => (await api.get("/readyz")).status === 200);
  const again = await api.post("/v1/executions", start);
  expect([again.status, again.body["id"]]).toEqual([200, "a"]);
  expect((await api.get("/v1/executions")).body["data"]).toHaveLength(1);
});

test("a client does not send again what must not happen twice and may have been done", async () => {
  const store = new FullStore();
  const api = await serve({ store, clock: hurried() });
  await api.post("/v1/workflows", idle);
  const { requester } = new RemoteRondo({ urls: [api.url, api.url] });
  store.isFull = true;
  const asked = (isRepeatable: boolean): Promise<unknown> => {
    const body = { workflow: "idle", input: { bucket: "b" } };
    return requester.json("/v1/executions", { method: "POST", body, isRepeatable });
  };
  for (const isRepeatable of [false, true])
    await expect(asked(isRepeatable)).rejects.toMatchObject({ code: "store_unavailable" });
  store.isFull = false;
  await until(async () => (await api.get("/readyz")).status === 200);
  // One of the first, two of the second.
  await until(async () => (await api.get("/v1/executions")).body["data"]?.["length"] === (3 as never));
});
