// Whoever waits for a damaged execution, or follows one that becomes damaged, is told so at once, in the process of the
// engine and over HTTP.
import { tmpdir } from "node:os";
import { type ExecutionHandle, workflow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { openServer } from "../../../src/compose/compose-server.ts";
import { checkedEntry, type Entry } from "../../../src/kernel/journal/journal-entry.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import type { LoadedExecution, Store } from "../../../src/store/store.ts";
import { ask } from "../../fixtures/cli/cli-here-fixture.ts";
import { all, failure } from "../../fixtures/sdk/open-rondo-fixture.ts";

const approval = workflow({ name: "approval" })
  .waitFor("approved")
  .returns(({ phases }) => phases.approved.value);

/** A store that garbles what it reads of the execution `e1`, once it is told to. */
function garblingStore() {
  const state: { of: "nothing" | "journal" } = { of: "nothing" };
  const inner = new MemoryStore();
  const garbled = (entry: Entry): Entry =>
    entry.seq === 1
      ? checkedEntry({ ...entry, body: entry.body.replace("started", "stasted") }, "e1")
      : entry;
  const store = new Proxy<Store>(inner, {
    get: (target, name) => {
      const method = Reflect.get(target, name, target) as unknown;
      if (typeof method !== "function") return method;
      return (...given: unknown[]) => {
        const answer = Reflect.apply(method, target, given) as unknown;
        if (!(answer instanceof Promise)) return answer;
        return answer.then((read: unknown) => {
          if (name === "load" && state.of === "journal")
            return (read as (LoadedExecution | null)[]).map((one) =>
              one?.head.id === "e1" ? { ...one, entries: one.entries.map(garbled) } : one,
            );
          if (name === "readJournal" && state.of === "journal") return (read as Entry[]).map(garbled);
          return read;
        });
      };
    },
  });
  return { store, state };
}

type Open = () => Promise<{
  handle: ExecutionHandle<unknown>;
  damage: () => Promise<void>;
  url: string;
}>;

const open: Open = async () => {
  const { store, state } = garblingStore();
  // Nothing that waits stays in memory: whoever asks for it has it read anew.
  const server = await openServer({ store, port: 0, settings: { idleMax: 0 }, onFault: () => {} });
  onTestFinished(() => server.close({ graceMs: 0 }));
  server.rondo.serve(approval);
  const handle = await server.rondo.start(approval, {}, { id: "e1" });
  return {
    handle,
    url: server.url,
    async damage() {
      state.of = "journal";
      expect(await server.rondo.execution("e1").describe()).toMatchObject({ status: "damaged" });
    },
  };
};

const openRemote: Open = async () => {
  const opened = await open();
  return { ...opened, handle: connect({ url: opened.url }).execution("e1") };
};

const DAMAGED = {
  name: "ExecutionFailed",
  code: "Damaged",
  message: expect.stringMatching(/^execution e1 is damaged: journal row 1 .* rondo drop e1\)$/),
  execution: { status: "damaged", damage: { table: "journal", row: 1 } },
};

describe.each([
  ["in process", open],
  ["over HTTP", openRemote],
])("a damaged execution, %s", (_, opening) => {
  test("has no result, and says why to whoever asks for it", async () => {
    const { handle, damage } = await opening();
    await damage();
    expect(await failure(handle.result())).toMatchObject(DAMAGED);
    expect(await failure(all(handle.events()))).toMatchObject(DAMAGED);
    expect(await failure(all(handle.events({ follow: true })))).toMatchObject(DAMAGED);
    expect(await failure(all(handle.logs({ follow: true })))).toMatchObject(DAMAGED);
    expect(await all(handle.logs())).toEqual([]);
  });

  test("ends the waiting of those who were there before", async () => {
    const { handle, damage } = await opening();
    const events = handle.events();
    const followed = handle.events({ follow: true });
    // Each has begun.
    for (const each of [events, followed])
      expect((await each[Symbol.asyncIterator]().next()).value?.seq).toBe(1);
    const waiting = [handle.result(), all(events), all(followed), all(handle.logs({ follow: true }))].map(
      failure,
    );
    await damage();
    for (const failed of await Promise.all(waiting)) expect(failed).toMatchObject(DAMAGED);
  });
});

test("a stream about a damaged execution ends with an event that says what is damaged and what to do", async () => {
  const { damage, url } = await open();
  await damage();
  const read = async (follow: string) =>
    (
      await fetch(`${url}/v1/executions/e1/events${follow}`, { headers: { accept: "text/event-stream" } })
    ).text();
  for (const follow of ["", "?follow=true"]) {
    const [, data] = /event: damaged\ndata: (.*)\n/.exec(await read(follow)) ?? [];
    expect(JSON.parse(data ?? "null")).toMatchObject({
      code: "wrong_status",
      message: expect.stringContaining("journal row 1 cannot be read"),
      hint: expect.stringContaining("drop it"),
      damage: { table: "journal", row: 1 },
    });
  }
});

test("rondo wait, events and logs end with exit code 8, and say what to do", async () => {
  const { damage, url } = await open();
  const asked = ["wait", "events", "logs"].map((verb) =>
    ask([verb, "e1", "--url", url, ...(verb === "wait" ? [] : ["--follow"])], { cwd: tmpdir() }),
  );
  await damage();
  const ended = await Promise.all(asked);
  expect(ended.map(({ code }) => code)).toEqual([8, 8, 8]);
  for (const { stderr } of ended) {
    expect(stderr).toContain("journal row 1");
    expect(stderr).toContain("drop it");
  }
});

test("rondo events, tasks and logs of an execution that is damaged already end with exit code 8", async () => {
  const { damage, url } = await open();
  await damage();
  for (const verb of ["events", "tasks", "logs"]) {
    const { code, stdout, stderr } = await ask([verb, "e1", "--url", url], { cwd: tmpdir() });
    expect([verb, code, stdout]).toEqual([verb, 8, ""]);
    expect(stderr).toMatch(/^rondo: execution e1 is damaged: journal row 1 .* rondo drop e1\)\n$/);
  }
});
