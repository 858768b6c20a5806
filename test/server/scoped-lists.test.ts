// Lists of those who see one project only: what they may not see takes no place on their pages.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { STORES, serve, until } from "../fixtures/server/api-fixture.ts";

test("attempts of other projects do not hide one's own behind the limit", async () => {
  const api = await serve();
  const gates: (() => void)[] = [];
  const held = workflow({ name: "held" }).phase("work", {
    process: () => new Promise<void>((resolve) => gates.push(resolve)),
  });
  api.rondo.serve(held);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  for (let i = 0; i < 5; i++)
    await api.post("/v1/executions", { workflow: "held", id: `m${i}`, project: "music" });
  await api.post("/v1/executions", { workflow: "held", id: "b", project: "books" });
  await until(() => gates.length === 6);
  await api.makeToken("admin");
  const token = await api.makeToken("viewer", "books");
  const { body } = await api.get("/v1/attempts?limit=1", { token });
  expect(body["data"]).toMatchObject([{ execution: "b", project: "books" }]);
  for (const open of gates) open();
});

test.each(STORES)("timers come in pages, without a gap or a repeat (%s)", async (_, store) => {
  const api = await serve({ store: store() });
  await api.post("/v1/workflows", {
    rondo: 1,
    name: "nap",
    phases: [{ name: "nap", handlers: { nap: { sleep: "1h" } } }],
  });
  // Many that are due at the same time, and some later.
  const startAt = Date.now() + 3_600_000;
  const names = Array.from({ length: 30 }, (_, i) => `t${i}`);
  for (const [i, id] of names.entries())
    await api.post("/v1/executions", {
      workflow: "nap",
      id,
      project: i % 10 === 9 ? "books" : "music",
      startAt: startAt + (i < 20 ? 0 : i),
    });
  await api.makeToken("admin");
  const token = await api.makeToken("viewer", "books");
  const pages = async (limit: number, by: string | null): Promise<string[][]> => {
    const all: string[][] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const more: string = cursor === "" ? "" : `&cursor=${cursor}`;
      const { body } = await api.get(`/v1/timers?limit=${limit}${more}`, { token: by });
      all.push((body["data"] as unknown as { execution: string }[]).map(({ execution }) => execution));
      cursor = body["next"] as unknown as string | null;
    }
    return all;
  };
  for (const limit of [1, 7, 30, 100]) {
    const all = await pages(limit, api.token);
    expect(all.flat()).toEqual(names);
    expect(Math.max(...all.map(({ length }) => length))).toBe(Math.min(limit, 30));
  }
  expect(await pages(2, token)).toEqual([["t9", "t19"], ["t29"]]);
  expect((await api.get("/v1/timers?cursor=x")).body).toMatchObject({
    code: "invalid_input",
    path: "cursor",
  });
});
