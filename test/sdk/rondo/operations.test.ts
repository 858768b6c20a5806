// Schedules, dead letters, workers and changes of many executions: the same in process, from a client, and under test.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openRondo, type RondoClient, workflow } from "rondo";
import { connect } from "rondo/client";
import { testRondo } from "rondo/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { withServer } from "../../../src/cli/server/find-server.ts";
import { failure } from "../../fixtures/sdk/open-rondo-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const nightly = workflow({ name: "nightly", input: z.object({ n: z.number() }) })
  .phase("double", { process: ({ input }) => input.n * 2 })
  .returns(({ phases }) => phases.double.first());
const waiting = workflow<{ n: number }>({ name: "waiting" }).waitFor("go");
let isBroken = true;
const failing = workflow({ name: "failing" }).phase("a", {
  process() {
    if (isBroken) throw new TypeError("no ink");
    return 1;
  },
  retry: { attempts: 1 },
});
const ALL = [nightly, waiting, failing];

const FORMS: readonly (readonly [form: string, open: () => Promise<RondoClient>])[] = [
  [
    "in process",
    async () => {
      const rondo = await openRondo({ store: "memory:" });
      onTestFinished(() => rondo.close({ graceMs: 0 }));
      return rondo.serve(...ALL);
    },
  ],
  [
    "from a client",
    async () => {
      const rondo = await openRondo({ store: "memory:", server: { port: 0 } });
      onTestFinished(() => rondo.close({ graceMs: 0 }));
      rondo.serve(...ALL);
      return connect({ url: rondo.url as string });
    },
  ],
  [
    "over PostgreSQL",
    async () => {
      const rondo = await openRondo({ store: await (await TestDatabase.make()).newDatabase() });
      onTestFinished(() => rondo.close({ graceMs: 0 }));
      return rondo.serve(...ALL);
    },
  ],
  [
    "under test",
    async () => {
      const t = await testRondo({ workflows: ALL });
      onTestFinished(() => t.close());
      return t;
    },
  ],
];

describe.each(FORMS)("%s", (form, open) => {
  test("a schedule is put, listed, paused, run and deleted", async () => {
    const rondo = await open();
    const spec = { id: "s1", workflow: nightly, input: { n: 4 }, cron: "0 2 * * *" } as const;
    expect(await rondo.schedules.put(spec)).toMatchObject({ id: "s1", workflow: "nightly", timeZone: "UTC" });
    expect((await rondo.schedules.put({ ...spec, timeZone: "Europe/Berlin" })).timeZone).toBe(
      "Europe/Berlin",
    );
    const { data } = await rondo.schedules.list({ workflow: "nightly" });
    expect(data.map(({ id, problem }) => [id, problem])).toEqual([["s1", null]]);
    expect((await rondo.schedules.pause("s1")).state.paused).toBe(true);
    expect((await rondo.schedules.resume("s1")).state.paused).toBe(false);
    const started = await rondo.schedules.run("s1", { id: "once" });
    expect(await rondo.schedules.run("s1", { id: "once" })).toBe(started);
    expect(await rondo.execution<typeof nightly>(started).result()).toBe(8);
    await rondo.schedules.delete("s1");
    expect(await failure(rondo.schedules.get("s1"))).toMatchObject({ code: "not_found" });
    expect(await failure(rondo.schedules.put({ ...spec, workflow: "none" }))).toMatchObject({
      code: "not_found",
      path: "workflow",
    });
    // @ts-expect-error: the input does not fit the workflow
    expect(await failure(rondo.schedules.put({ ...spec, input: { n: "x" } }))).toMatchObject({
      code: "invalid_input",
    });
  });

  test("all executions are walked, page by page, and no page is read before it is needed", async () => {
    const rondo = await open();
    // One after the other: PostgreSQL gives starts that come together any order.
    for (let n = 0; n < 7; n++)
      await rondo.start(waiting, { n }, { id: `w${n}`, tags: { odd: String(n % 2) } });
    const ids: string[] = [];
    for await (const { id } of rondo.listAll({ workflow: "waiting", limit: 2 })) ids.push(id);
    expect(ids).toEqual(["w6", "w5", "w4", "w3", "w2", "w1", "w0"]);
    // Tags are found by the search index, which PostgreSQL writes a little later.
    const found = async () => (await rondo.list({ tags: { odd: "1" } })).data;
    await vi.waitFor(async () => expect(await found()).toHaveLength(3), { timeout: 30_000 });
    const odd: string[] = [];
    for await (const { id } of rondo.listAll({ tags: { odd: "1" }, limit: 1 })) {
      odd.push(id);
      if (odd.length === 2) break;
    }
    expect(odd).toEqual(["w5", "w3"]);
    const walk = rondo.listAll({ status: "nonsense" as never })[Symbol.asyncIterator]();
    expect(await failure(walk.next())).toMatchObject({ code: "invalid_input" });
  });

  test("dead letters are listed, grouped, retried and dropped", async () => {
    isBroken = true;
    const rondo = await open();
    await failure(rondo.run(failing, null, { id: "f1" }));
    await failure(rondo.run(failing, null, { id: "f2" }));
    const { data } = await rondo.deadLetters.list({ workflow: "failing" });
    expect(data.map(({ execution }) => execution).toSorted()).toEqual(["f1", "f2"]);
    const [group] = await rondo.deadLetters.groups();
    expect(group).toMatchObject({ name: "TypeError", message: "no ink", tasks: 2, executions: 2 });
    const dry = await rondo.deadLetters.retryGroup(group?.id ?? "", { dryRun: true });
    expect(dry).toMatchObject({ changed: 0, tasks: 2 });
    isBroken = false;
    await rondo.deadLetters.retry(data.find(({ execution }) => execution === "f1")?.id ?? -1);
    expect(await rondo.execution("f1").result()).toBe(1);
    const left = await rondo.deadLetters.list();
    expect(left.data.map(({ execution }) => execution)).toEqual(["f2"]);
    await rondo.deadLetters.drop(left.data[0]?.id ?? -1);
    expect((await rondo.deadLetters.list()).data).toEqual([]);
    expect(await failure(rondo.deadLetters.retry(999))).toMatchObject({ code: "not_found" });
  });

  test("a token for one execution is made, and names its rights and its end", async () => {
    const rondo = await open();
    await rondo.start(waiting, { n: 1 }, { id: "t1" });
    const made = await rondo.tokenFor("t1", { scopes: ["read", "signal"], expires: "2h" });
    expect(made).toMatchObject({ execution: "t1", scopes: ["read", "signal"] });
    expect(made.token).toMatch(/^rondo_x\./);
    const { scopes, expiresAt } = await rondo.tokenFor("t1");
    expect(scopes).toEqual(["read"]);
    expect(expiresAt).toBeLessThan(made.expiresAt);
    expect(await failure(rondo.tokenFor("none"))).toMatchObject({ code: "not_found" });
    // @ts-expect-error: there is no such scope
    expect(await failure(rondo.tokenFor("t1", { scopes: ["all"] }))).toMatchObject({ code: "invalid_input" });
    // @ts-expect-error: there is no such option
    expect(await failure(rondo.tokenFor("t1", { scope: "read" }))).toMatchObject({ code: "unknown_field" });
  });

  test("an execution is watched from its view now to its end", async () => {
    const rondo = await open();
    const execution = await rondo.start(waiting, { n: 7 }, { id: "seen" });
    const seen: { status: string; input: unknown; revision: number }[] = [];
    const connections: boolean[] = [];
    const watched = (async () => {
      for await (const view of execution.watch({ onConnection: (is) => void connections.push(is) }))
        seen.push(view);
    })();
    await expect.poll(() => seen.length, { interval: 10, timeout: 60_000 }).toBeGreaterThan(0);
    await execution.signal("go", { x: 1 });
    await watched;
    expect(seen.at(-1)).toMatchObject({ status: "done", input: { n: 7 } });
    expect(seen.every(({ revision }, i) => i === 0 || revision > (seen[i - 1]?.revision ?? 0))).toBe(true);
    expect(connections[0]).toBe(true);
    const after: string[] = [];
    for await (const { status } of rondo.execution("seen").watch()) after.push(status);
    expect(after).toEqual(["done"]);
    const none = rondo.execution("none").watch()[Symbol.asyncIterator]();
    expect(await failure(none.next())).toMatchObject({ code: "not_found" });
    // @ts-expect-error: there is no such option
    const wrong = rondo.execution("seen").watch({ follow: true })[Symbol.asyncIterator]();
    expect(await failure(wrong.next())).toMatchObject({ code: "unknown_field" });
  });

  test("workers are listed", async () => {
    const rondo = await open();
    const [worker] = await rondo.workers.list();
    expect(worker).toMatchObject({ kind: "local", held: 0, draining: false });
    expect(worker?.handlers.map(({ use }) => use)).toContain("nightly.double");
    expect(await failure(rondo.workers.drain("nobody"))).toMatchObject({ code: "not_found" });
  });

  test("executions are listed and changed by a filter", async () => {
    const rondo = await open();
    const starts = Array.from({ length: 6 }, (_, n) => ({
      input: { n },
      id: `w${n}`,
      tags: { team: n % 2 === 0 ? "ops" : "web" },
    }));
    await rondo.startMany(waiting, starts);
    await rondo.run(nightly, { n: 1 }, { id: "n1" });
    const ids = async (filter: Parameters<RondoClient["list"]>[0]) =>
      (await rondo.list(filter)).data.map(({ id }) => id).toSorted();
    expect(await ids({ status: ["done", "failed"] })).toEqual(["n1"]);
    const tagged = { tags: { team: "ops" } };
    // The index of tags follows the commits.
    await expect.poll(() => ids(tagged), { interval: 20, timeout: 20_000 }).toEqual(["w0", "w2", "w4"]);
    expect(await ids({ ...tagged, search: "w2" })).toEqual(["w2"]);
    const { createdAt } = await rondo.execution("w0").describe();
    expect(await ids({ since: new Date(createdAt), workflow: "waiting" })).toHaveLength(6);
    expect(await ids({ until: createdAt - 1 })).toEqual([]);
    const wanted = { workflow: "waiting", ...tagged };
    const dry = await rondo.bulk("cancel", wanted, { dryRun: true });
    expect(dry).toMatchObject({ matched: 3, changed: 0 });
    const done = await rondo.bulk("cancel", wanted, { reason: "wrong" });
    expect({ ...done, ids: done.ids.toSorted() }).toEqual({
      ...{ matched: 3, changed: 3, ids: ["w0", "w2", "w4"], refused: [] },
    });
    expect(await rondo.execution("w0").status()).toBe("cancelled");
    expect(
      (await rondo.bulk("pause", { workflow: "waiting", status: ["running"] }, { limit: 2 })).changed,
    ).toBe(2);
  });

  test("an id that is taken is returned, refused or followed", async () => {
    const rondo = await open();
    const start = (n: number, ifExists?: "return" | "fail" | "startNewWhenDone") =>
      rondo.start(waiting, { n }, { id: "sync", ...(ifExists === undefined ? {} : { ifExists }) });
    expect((await start(1, "fail")).id).toBe("sync");
    expect((await start(1, "return")).id).toBe("sync");
    expect(await failure(start(1, "fail"))).toMatchObject({ code: "conflict" });
    expect((await start(1, "startNewWhenDone")).id).toBe("sync");
    expect(await failure(start(2, "startNewWhenDone"))).toMatchObject({ code: "conflict" });
    for (const id of ["sync~2", "sync~3", "sync~4"]) {
      const before = id === "sync~2" ? "sync" : `sync~${Number(id.slice(5)) - 1}`;
      await rondo.execution(before).signal("go");
      await rondo.execution(before).result();
      const both = await Promise.all([start(2, "startNewWhenDone"), start(2, "startNewWhenDone")]);
      expect(both.map((one) => one.id)).toEqual([id, id]);
    }
    const [one] = await rondo.startMany(waiting, [
      { input: { n: 2 }, id: "sync", ifExists: "startNewWhenDone" },
    ]);
    expect(one).toMatchObject({ existed: true, execution: { id: "sync~4" } });
  });

  test("unknown options are refused by every function", async () => {
    const rondo = await open();
    const odd = { nonsense: 1 } as never;
    const execution = await rondo.start(waiting, { n: 1 }, { id: "odd" });
    const first = async (items: AsyncIterable<unknown>) => items[Symbol.asyncIterator]().next();
    const calls: Record<string, () => Promise<unknown>> = {
      start: () => rondo.start(waiting, { n: 1 }, odd),
      run: () => rondo.run(waiting, { n: 1 }, odd),
      signalWithStart: () =>
        rondo.signalWithStart(waiting, { n: 1 }, { name: "go" }, { id: "odd", nonsense: 1 } as never),
      list: () => rondo.list(odd),
      close: () => rondo.close(odd),
      result: () => execution.result(odd),
      events: () => first(execution.events(odd)),
      logs: () => first(execution.logs(odd)),
      signal: () => execution.signal("go", null, odd),
      pause: () => execution.pause(odd),
      resume: () => execution.resume(odd),
      cancel: () => execution.cancel(odd),
      retry: () => execution.retry(odd),
      retryTasks: () => execution.retryTasks({ phase: "go" }, odd),
      "retryTasks: choice": () => execution.retryTasks(odd),
      bulk: () => rondo.bulk("pause", {}, odd),
      "bulk: filter": () => rondo.bulk("pause", odd),
      "schedules.put": () =>
        rondo.schedules.put({ id: "s", workflow: "waiting", cron: "@daily", nonsense: 1 } as never),
      "schedules.list": () => rondo.schedules.list(odd),
      "schedules.run": () => rondo.schedules.run("s", odd),
      "deadLetters.list": () => rondo.deadLetters.list(odd),
      "deadLetters.groups": () => rondo.deadLetters.groups(odd),
      "deadLetters.retryGroup": () => rondo.deadLetters.retryGroup("0".repeat(16), odd),
      "deadLetters.drop": () => rondo.deadLetters.drop(1, odd),
    };
    const said: Record<string, string> = {};
    for (const [name, call] of Object.entries(calls)) said[name] = (await failure(call())).message;
    for (const [name, message] of Object.entries(said)) expect(message, name).toContain("nonsense");
    const [outcome] = await rondo.startMany(waiting, [{ input: { n: 1 }, nonsense: 1 } as never]);
    expect(outcome?.error?.message).toContain("nonsense");
    expect(form).not.toBe("");
  });
});

test("schedules under test fire in virtual time, and after a crash", async () => {
  await using t = await testRondo({ workflows: ALL });
  await t.schedules.put({ id: "hourly", workflow: nightly, input: { n: 1 }, cron: "@hourly" });
  const before = (await t.list()).data.length;
  await t.clock.advance("1h");
  expect((await t.list()).data).toHaveLength(before + 1);
  await t.crash();
  await t.clock.advance("2h");
  expect((await t.list()).data).toHaveLength(before + 3);
});

test("schedules of a program that does not listen go on in its next run", async () => {
  const store = `file:${temporaryDirectory()}`;
  const spec = { id: "often", workflow: nightly, input: { n: 1 }, cron: "* * * * * *" } as const;
  {
    await using rondo = await openRondo({ store });
    rondo.serve(nightly);
    await rondo.schedules.put(spec);
    await rondo.schedules.pause("often");
  }
  await using rondo = await openRondo({ store });
  rondo.serve(nightly);
  expect((await rondo.schedules.resume("often")).state.paused).toBe(false);
  await expect.poll(async () => (await rondo.list()).data.length, { timeout: 20_000 }).toBeGreaterThan(0);
  expect(rondo.url).toBe(null);
});

describe("openRondo({ server })", () => {
  test("serves the API and the dashboard, and the command line finds it by its directory", async () => {
    const directory = temporaryDirectory();
    const rondo = await openRondo({ store: `file:${directory}`, server: { port: 0 } });
    rondo.serve(nightly);
    expect(await rondo.run(nightly, { n: 2 }, { id: "here" })).toBe(4);
    const url = rondo.url as string;
    expect(await connect({ url }).execution<typeof nightly>("here").result()).toBe(4);
    expect((await fetch(url, { headers: { accept: "text/html" } })).status).toBe(
      existsSync("dist/dashboard") ? 200 : 404,
    );
    const listed = await withServer({ store: `file:${directory}` }, (server) => server.rondo.list());
    expect(listed.data.map(({ id }) => id)).toEqual(["here"]);
    await rondo.close();
    await expect(fetch(url)).rejects.toThrow("fetch failed");
    expect(existsSync(join(directory, "rondo.sock"))).toBe(false);
    // The directory is free again.
    await (await openRondo({ store: `file:${directory}` })).close();
  });

  test("refuses wrong options, and a directory in use", async () => {
    expect(await failure(openRondo({ store: "memory:", server: { prot: 1 } as never }))).toMatchObject({
      code: "unknown_field",
      path: "server.prot",
    });
    expect(
      await failure(openRondo({ store: "memory:", server: { host: "0.0.0.0", port: 0 } })),
    ).toMatchObject({
      code: "forbidden",
      path: "host",
    });
    await using other = await openRondo({ store: "memory:", server: { port: 0 } });
    const port = Number(new URL(other.url as string).port);
    expect(await failure(openRondo({ store: "memory:", server: { port } }))).toMatchObject({
      code: "conflict",
      hint: expect.stringContaining("`server: { port }` of openRondo"),
    });
    const store = `file:${temporaryDirectory()}`;
    await using rondo = await openRondo({ store, server: { port: null } });
    expect(rondo.url).toMatch(/^unix:/);
    expect(await failure(openRondo({ store, server: { port: 0 } }))).toMatchObject({
      name: "DirectoryInUse",
    });
  });
});

describe("connect(...).serve", () => {
  test("runs the handlers of a program for a server", async () => {
    await using rondo = await openRondo({ store: "memory:", server: { port: 0 } });
    const client = connect({ url: rondo.url as string });
    const lines: unknown[] = [];
    const code = workflow<{ n: number }>({ name: "far" }).phase("square", {
      enumerate: ({ input }) => Array.from({ length: input.n }, (_, i) => i),
      process({ task, log }) {
        log("task", task);
        return task ** 2;
      },
    });
    const worker = await client.serve(code, {
      capacity: 5,
      name: "mine",
      onLog: ({ parts }) => lines.push(parts),
    });
    expect(worker.id).toMatch(/^mine~/);
    const sum = code.returns(async ({ phases }) => phases.square.reduce((all, x) => all + x, 0));
    await using second = await client.serve([sum]);
    expect(second.id).not.toBe(worker.id);
    expect(await client.run(sum, { n: 4 })).toBe(14);
    expect(lines.length).toBeGreaterThan(0);
    const listed = await client.workers.list();
    expect(listed.find(({ id }) => id === worker.id)).toMatchObject({ kind: "remote", capacity: 5 });
    await client.workers.drain(worker.id);
    await worker.closed;
    await client.close();
    expect((await rondo.workers.list()).filter(({ kind }) => kind === "remote")).toEqual([]);
  });

  test("refuses wrong options and a wrong token", async () => {
    const adminToken = "a-token-of-some-length";
    await using rondo = await openRondo({ store: "memory:", server: { port: 0, adminToken } });
    const url = rondo.url as string;
    const client = connect({ url, token: adminToken });
    expect(await failure(client.serve(nightly, { capactiy: 1 } as never))).toMatchObject({
      code: "unknown_field",
    });
    expect(await failure(client.serve({} as never))).toMatchObject({ code: "invalid_input" });
    expect(await failure(connect({ url, token: "wrong-token-of-length" }).serve(nightly))).toMatchObject({
      code: "unauthorised",
    });
  });
});
