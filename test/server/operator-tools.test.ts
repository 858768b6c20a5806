// What an operator does beside executions: queues are paused and resumed, rules for alerts are made, schedules are filled.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { serve } from "../fixtures/server/api-fixture.ts";

const mail = workflow({ name: "mail" })
  .phase("send", { process: () => "sent" })
  .returns(() => "ok");

test("a paused queue gives out nothing, `why` says who paused it, and a resume lets it go on", async () => {
  const api = await serve();
  api.rondo.serve(mail);
  const paused = await api.post("/v1/queues/mail.send/pause", { reason: "SMTP is down" });
  expect(paused.body).toMatchObject({ use: "mail.send", reason: "SMTP is down" });
  await api.post("/v1/executions", { workflow: "mail", id: "m1" });
  const why = await api.get("/v1/executions/m1/why");
  expect(why.body).toMatchObject({ waits: "queue" });
  expect(why.text).toMatch(/queue of \\"mail.send\\" is paused by \w+: SMTP is down/);
  const result = api.get("/v1/executions/m1/result?wait=30s");
  expect((await api.get("/v1/queues/paused")).body).toMatchObject({ data: [{ use: "mail.send" }] });
  expect((await api.get("/v1/executions/m1")).body).toMatchObject({ status: "running" });
  await api.post("/v1/queues/mail.send/resume");
  expect((await result).body).toMatchObject({ status: "done", output: "ok" });
  expect((await api.post("/v1/queues/mail.send/resume")).status).toBe(404);
  for (const odd of ["\u0000", "\u202egpj", "\u2028"]) {
    const refused = await api.post(`/v1/queues/${encodeURIComponent(`mail${odd}`)}/pause`);
    expect(refused.status).toBe(404);
    expect(refused.text).toContain("must not have control or format characters");
  }
});

test("a queue that was paused before a restart is paused after it", async () => {
  const store = new MemoryStore();
  const first = await serve({ store });
  await first.post("/v1/queues/mail.send/pause");
  await first.close();
  const api = await serve({ store });
  api.rondo.serve(mail);
  await api.post("/v1/executions", { workflow: "mail", id: "m1" });
  expect((await api.get("/v1/executions/m1/why")).body).toMatchObject({ waits: "queue" });
  const result = api.get("/v1/executions/m1/result?wait=30s");
  await api.post("/v1/queues/mail.send/resume");
  expect((await result).body).toMatchObject({ status: "done" });
});

test("rules for alerts go to URLs outside the network or to targets of the file, never to a program", async () => {
  const api = await serve({
    alerts: {
      targets: { ok: { command: ["/bin/sh", "-c", "cat > /dev/null"] } },
      rules: [{ id: "of-file", when: "node.died", to: "ok" }],
    },
  });
  const rule = { id: "mine", when: "execution.failed", to: "ok" };
  expect((await api.post("/v1/alerts", rule)).body).toMatchObject({ id: "mine", isOfFile: false });
  const secret = "https://hooks.example.com/T0/secret";
  expect((await api.post("/v1/alerts", { ...rule, id: "url", to: secret })).body).toMatchObject({
    to: "https://hooks.example.com/…",
  });
  for (const wrong of [
    { to: "http://127.0.0.1:1/x" },
    { to: "/bin/sh" },
    { command: ["/bin/sh"] },
    { id: "of-file" },
    { when: "never" },
  ])
    expect((await api.post("/v1/alerts", { ...rule, ...wrong })).status).toBeGreaterThanOrEqual(400);
  expect((await api.post("/v1/alerts/mine/test")).body).toEqual({ sent: true, error: null });
  const listed = await api.get("/v1/alerts");
  expect(listed.text).not.toContain("secret");
  expect(listed.body).toMatchObject({
    rules: [{ id: "of-file", isOfFile: true }, { id: "mine" }, { id: "url" }],
  });
});

test("a schedule is filled for a range of the past", async () => {
  const api = await serve();
  api.rondo.serve(mail);
  await api.post("/v1/schedules", { id: "hourly", workflow: "mail", cron: "0 * * * *" });
  const to = Date.now() - 60_000;
  const range = { from: to - 3 * 3_600_000, to };
  const found = await api.post("/v1/schedules/hourly/backfill", { ...range, dryRun: true });
  expect(found.body).toMatchObject({ due: 3, missing: 3, started: 0 });
  expect((await api.post("/v1/schedules/hourly/backfill", range)).body).toMatchObject({ started: 3 });
  expect((await api.post("/v1/schedules/hourly/backfill", range)).body).toMatchObject({
    existed: 3,
    started: 0,
  });
});

test("figures of a workflow are there when its executions have ended, by handler too", async () => {
  const api = await serve();
  api.rondo.serve(mail);
  for (const id of ["a", "b"]) await api.post("/v1/executions?wait=30s", { workflow: "mail", id });
  const { body } = await api.get("/v1/workflows/mail/stats");
  expect(body).toMatchObject({ started: 2, done: 2, failed: 0, open: 0, periodMs: 3_600_000 });
  expect(body["handlers"]).toMatchObject([
    { phase: "send", handler: "send", done: 2 },
    { phase: "returns", handler: "returns", done: 2 },
  ]);
  expect((await api.get("/v1/workflow-stats")).body).toMatchObject({ data: [{ name: "mail", started: 2 }] });
});
