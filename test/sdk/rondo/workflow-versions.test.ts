// Versions of a workflow side by side: starts, what is pinned, and which versions are still needed; in every form of Rondo.
import { flow, handlerFor, openRondo, type RondoClient, workflow } from "rondo";
import { connect } from "rondo/client";
import { testRondo } from "rondo/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { failure } from "../../fixtures/sdk/open-rondo-fixture.ts";

const orderOf = (version: string) =>
  workflow({ name: "order", version })
    .waitFor("paid")
    .phase("ship", { process: () => `shipped by ${version}` })
    .returns(async ({ phases }) => `${version}: ${await phases.ship.only()}`);
const [order1, order12, order2] = [orderOf("1.0.0"), orderOf("1.2.0"), orderOf("2.0.0")];
const ALL = [order2, order1];

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
    "from a client, with one worker for each version",
    async () => {
      const rondo = await openRondo({ store: "memory:", server: { port: 0 } });
      onTestFinished(() => rondo.close({ graceMs: 0 }));
      const client = connect({ url: rondo.url as string });
      for (const one of ALL) {
        const worker = await client.serve(one);
        onTestFinished(() => worker.close());
      }
      return client;
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

describe.each(FORMS)("%s", (_form, open) => {
  test("two versions are served side by side; a name stands for the highest, whichever came last", async () => {
    const rondo = await open();
    const starts = [
      await rondo.start("order", null),
      await rondo.start("order@1.0.0", null),
      await rondo.start(order1, null),
      await rondo.start(order2, null),
    ];
    for (const started of starts) await started.signal("paid");
    expect(await Promise.all(starts.map((started) => started.result()))).toEqual([
      "2.0.0: shipped by 2.0.0",
      "1.0.0: shipped by 1.0.0",
      "1.0.0: shipped by 1.0.0",
      "2.0.0: shipped by 2.0.0",
    ]);
    expect(await failure(rondo.start("order@3.0.0", null))).toMatchObject({
      code: "not_found",
      message: expect.stringContaining('the workflow "order" has no version 3.0.0'),
    });
  });

  test("versions lists what open executions need, and what can be retired", async () => {
    const rondo = await open();
    const first = await rondo.start(order1, null);
    await rondo.start(order1, null);
    const seen = async () =>
      (await rondo.versions(order2)).map(({ version, open, oldest, unserved, isNewest, canRetire }) => {
        const isFirst = oldest?.id === first.id;
        return { version, open, isFirst, unserved, isNewest, canRetire };
      });
    const served = { unserved: [] };
    expect(await seen()).toEqual([
      { version: "2.0.0", open: 0, isFirst: false, ...served, isNewest: true, canRetire: false },
      { version: "1.0.0", open: 2, isFirst: true, ...served, isNewest: false, canRetire: false },
    ]);
    for (const { id } of (await rondo.list({ workflow: "order" })).data) {
      await rondo.execution(id).signal("paid");
      await rondo.execution(id).result();
    }
    expect((await seen())[1]).toMatchObject({ version: "1.0.0", open: 0, canRetire: true });
    expect(await failure(rondo.versions("none"))).toMatchObject({ code: "not_found" });
  });
});

const moving = (version: string) => {
  const first = workflow({ name: "moving", version })
    .phase("work", {
      *enumerate() {
        yield* [1, 2, 3];
      },
      process: async ({ task, waitFor }) => {
        if (task === 3) await waitFor("go");
        return `${task} by ${version}`;
      },
    })
    .waitFor("paid");
  return version.startsWith("1")
    ? first.returns(async ({ phases }) => [version, ...(await phases.work.toArray({ max: 10 }))])
    : first
        .phase("audit", { process: () => `audited by ${version}` })
        .returns(async ({ phases }) => [
          version,
          ...(await phases.work.toArray({ max: 10 })),
          await phases.audit.only(),
        ]);
};
const [moving1, moving2] = [moving("1.0.0"), moving("2.0.0")];
const shorter = workflow({ name: "moving", version: "3.0.0" }).phase("other", { process: () => 1 });

const MOVING: readonly (readonly [form: string, open: () => Promise<RondoClient>])[] = [
  [
    "in process",
    async () => {
      const rondo = await openRondo({ store: "memory:" });
      onTestFinished(() => rondo.close({ graceMs: 0 }));
      return rondo.serve(moving1, moving2, shorter);
    },
  ],
  [
    "from a client",
    async () => {
      const rondo = await openRondo({ store: "memory:", server: { port: 0 } });
      onTestFinished(() => rondo.close({ graceMs: 0 }));
      rondo.serve(moving1, moving2, shorter);
      return connect({ url: rondo.url as string });
    },
  ],
  [
    "under test",
    async () => {
      const t = await testRondo({ workflows: [moving1, moving2, shorter] });
      onTestFinished(() => t.close());
      return t;
    },
  ],
];

/** Waits until the execution waits for this signal. */
async function awaiting(execution: { why(): Promise<string> }, signal: string): Promise<void> {
  while (!(await execution.why()).includes(`"${signal}"`));
}

describe.each(MOVING)("moving, %s", (_form, open) => {
  test("an open execution keeps its settled tasks and goes on in the new version", async () => {
    const rondo = await open();
    const execution = await rondo.start(moving1, null);
    await awaiting(execution, "go");
    expect(await failure(execution.move({ version: "3.0.0" }))).toMatchObject({
      code: "conflict",
      message: expect.stringContaining('phase "work" has begun, but is missing in the new definition'),
    });
    expect(await failure(execution.move({ version: "9.0.0" }))).toMatchObject({ code: "not_found" });
    await execution.move({ version: "2.0.0" }, { dryRun: true });
    expect((await execution.describe()).workflowVersion).toBe("1.0.0");
    await execution.move({ version: "2.0.0" }, { by: "ann", reason: "1 is retired", id: "m" });
    await execution.move({ version: "2.0.0" }, { id: "m" });
    const view = await execution.describe();
    expect(view).toMatchObject({ workflowVersion: "2.0.0", phase: "work", tags: {} });
    expect(view.phases[0]?.handlers[0]).toMatchObject({ done: 2, total: 3 });
    expect((await rondo.list({ workflow: "moving" })).data[0]?.workflowHash).toBe(view.workflowHash);
    const needed = await rondo.versions("moving");
    expect(needed.filter(({ open: count }) => count > 0).map(({ version }) => version)).toEqual(["2.0.0"]);
    await execution.signal("go");
    await execution.signal("paid");
    expect(await execution.result()).toEqual([
      "2.0.0",
      "1 by 1.0.0",
      "2 by 1.0.0",
      "3 by 2.0.0",
      "audited by 2.0.0",
    ]);
    const kinds: unknown[] = [];
    for await (const { kind, version } of execution.events())
      if (kind === "workflow.moved") kinds.push(version);
    expect(kinds).toEqual(["2.0.0"]);
    const moved = (await rondo.stateAt(execution.id, view.revision)).workflowVersion;
    expect([moved, (await rondo.stateAt(execution.id, 2)).workflowVersion]).toEqual(["2.0.0", "1.0.0"]);
  });

  test("all executions of a workflow, while paused too; those that cannot be moved are listed", async () => {
    const rondo = await open();
    const [open1, paused] = [await rondo.start(moving1, null), await rondo.start(moving1, null)];
    const other = await rondo.start("moving@3.0.0", null);
    await Promise.all([awaiting(open1, "go"), awaiting(paused, "go"), other.result()]);
    await paused.pause();
    const filter = { workflow: "moving", status: ["running", "paused"] } as const;
    const dry = await rondo.bulk("move", filter, { version: "2.0.0", dryRun: true });
    expect([dry.changed, dry.ids.length, dry.refused]).toEqual([0, 2, []]);
    const not = await rondo.bulk("move", filter, { version: "3.0.0", dryRun: true });
    expect(not.refused.map(({ code }) => code)).toEqual(["conflict", "conflict"]);
    expect(await rondo.bulk("move", filter, { version: "2.0.0" })).toMatchObject({ changed: 2, refused: [] });
    await paused.resume();
    for (const execution of [open1, paused]) {
      for (const signal of ["go", "paid"]) await execution.signal(signal);
      expect((await execution.result())?.at(-1)).toBe("audited by 2.0.0");
    }
    expect(await failure(rondo.bulk("move", filter, {}))).toMatchObject({ code: "invalid_input" });
  });
});

test("a version that no worker serves is awaited by name, and listed as unserved", async () => {
  const rondo = await openRondo({ store: "memory:" });
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  rondo.serve(order2);
  const old = await rondo.start(order1, null);
  await old.signal("paid");
  expect(await old.why()).toContain(
    'none serves "order.ship" in a version that fits "^1.0.0" (there are 2.0.0)',
  );
  const [, first] = await rondo.versions("order");
  expect(first).toMatchObject({ version: "1.0.0", open: 1, workers: [] });
  expect(first?.unserved).toEqual(["order.returns ^1.0.0", "order.ship ^1.0.0"]);
  rondo.serve(order12);
  expect(await old.result()).toBe("1.2.0: shipped by 1.2.0");
});

test("a version that is stored again under a changed definition is started as it is now", async () => {
  const rondo = await openRondo({ store: "memory:" });
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  const changed = workflow({ name: "order", version: "1.0.0" }).phase("other", { process: () => "changed" });
  rondo.serve(order1, changed);
  expect(await rondo.run("order@1.0.0", null)).toBe("changed");
  expect((await rondo.versions("order")).map(({ version, isNewest }) => [version, isNewest])).toEqual([
    ["1.0.0", true],
  ]);
});

test("a pre-release is not started by the plain name while a release is there", async () => {
  const rondo = await openRondo({ store: "memory:" });
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  const shown = (version: string) => flow("shown", async () => version, { version });
  const built = flow("built", async () => "built", { version: "1.0.0+b5" });
  expect(await rondo.serve(built).run(built, null)).toBe("built");
  rondo.serve(shown("1.0.0"), shown("2.0.0-rc.1"));
  expect(await rondo.run("shown", null)).toBe("1.0.0");
  expect(await rondo.run("shown@2.0.0-rc.1", null)).toBe("2.0.0-rc.1");
});

test("without a version, newer code finds no results in a phase that the definition of its execution lacks", async () => {
  const first = workflow({ name: "grown" })
    .phase("a", { process: () => 1 })
    .waitFor("go")
    .returns(({ phases }) => [phases.a.count]);
  const grown = (isStrict: boolean) =>
    workflow({ name: "grown" })
      .phase("a", { process: () => 1 })
      .waitFor("go")
      .phase("audit", { process: () => "audited" })
      .phase("both", { left: handlerFor()({ process: () => 1 }), right: handlerFor()({ process: () => 2 }) })
      .returns(async ({ phases }) => [
        phases.a.count,
        phases.audit.count,
        phases.audit.visits,
        (await phases.audit.first()) ?? null,
        phases.both.right.count,
        isStrict ? await phases.audit.only() : "lenient",
      ]);
  const rondo = await openRondo({ store: "memory:" });
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  rondo.serve(first);
  const [old, strict] = [await rondo.start(first, null), await rondo.start(first, null)];
  rondo.serve(grown(false));
  await old.signal("go");
  expect(await old.result()).toEqual([1, 0, 0, null, 0, "lenient"]);
  rondo.serve(grown(true));
  await strict.signal("go");
  expect(await failure(strict.result())).toMatchObject({
    message: expect.stringContaining('phase "audit" has no result: it is not in the definition'),
  });
});

test("the data of a signal must fit the wait of the newest execution of the id, whatever the first one waited for", async () => {
  const orderWith = (version: string, key: string) =>
    workflow({ name: "checked", version }).waitFor("paid", { schema: z.object({ [key]: z.number() }) });
  const [one, two] = [orderWith("1.0.0", "cents"), orderWith("2.0.0", "euros")];
  const rondo = await openRondo({ store: "memory:" });
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  rondo.serve(one, two);
  const first = await rondo.start(one, null, { id: "a" });
  await first.signal("paid", { cents: 100 });
  await first.result();
  await rondo.start(two, null, { id: "a", ifExists: "startNewWhenDone" });
  expect(await failure(rondo.execution("a").signal("paid", { cents: 100 }))).toMatchObject({
    message: expect.stringContaining("euros"),
  });
  expect(await rondo.execution("a").signal("paid", { euros: 1 })).toBe("delivered");
});
