// Ids that have to be encoded somewhere: in paths, headers, the ids of attempts and events, idempotency keys.

import { workflow } from "rondo";
import { connect } from "rondo/client";
import { expect, test } from "vitest";
import { type Api, serve } from "../fixtures/server/api-fixture.ts";
import { startRemoteWorker } from "../fixtures/workers/remote-worker-fixture.ts";

const IDS = [
  "a/b",
  "ä ö",
  "100%",
  "?#&",
  "日本語",
  "🚀",
  "..a",
  "%2F",
  "a.b",
  'say "hi" \\',
  "<script>",
  "語".repeat(66),
  "x".repeat(200),
];

/** A page of tasks, earlier results, a step, logs, a wait in a task, a child: all of them name the execution somewhere. */
const child = workflow({ name: "odd-child" }).phase("one", { process: ({ task }) => task });
const odd = workflow({ name: "odd" })
  .phase("fan", {
    enumerate: () => [
      { n: 1, key: "a/b" },
      { n: 2, key: "日本語" },
    ],
    key: "/key",
    process: async ({ task, log, idempotencyKey, step }) => {
      log.info("at work");
      return step("step one / 日本語", () => ({ n: task.n, idempotencyKey }));
    },
  })
  .phase("wait", { process: async ({ waitFor }) => waitFor("human 2 / ja?") })
  .child("family", child)
  .returns(async ({ phases }) => {
    const keys: string[] = [];
    for await (const { idempotencyKey } of phases.fan.results()) keys.push(idempotencyKey);
    return { keys };
  });

async function remoteWorker(api: Api): Promise<void> {
  const rondo = connect({ url: api.url });
  await rondo.start(child, null, { id: "first-child" });
  const first = await rondo.start(odd, null, { id: "first" });
  await startRemoteWorker({ addresses: [api.url], capacity: 50, workflows: [odd, child] });
  await first.cancel();
}

test("an execution of any id runs at remote workers, and is read and changed over HTTP", async () => {
  const api = await serve();
  await remoteWorker(api);
  const rondo = connect({ url: api.url });
  await Promise.all(
    IDS.map(async (id) => {
      const handle = await rondo.start(odd, null, { id });
      await handle.signal("human 2 / ja?", { ok: true });
      const { keys } = await handle.result();
      expect(keys.toSorted(), id).toEqual([0, 1].map((n) => `${encoded(id)}/fan/1/fan/${n}`));
      const view = await handle.describe();
      expect(view).toMatchObject({ id, status: "done" });
      const events = [];
      for await (const event of handle.events()) events.push(event);
      expect(events.map(({ execution }) => execution)).toEqual(events.map(() => id));
      const lines = [];
      for await (const line of handle.logs()) lines.push(line);
      expect(lines).toHaveLength(2);
    }),
  );
  const { data } = await rondo.list({ workflow: "odd", limit: 100 });
  expect(data.map(({ id }) => id).toSorted()).toEqual(["first", ...IDS].toSorted());
});

function encoded(id: string): string {
  return encodeURIComponent(id).replace(/[.!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}
