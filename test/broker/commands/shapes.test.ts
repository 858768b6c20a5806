// Documents of one shape share a definition: each execution has its own commands in its input.
import type { StepDocument } from "rondo/client";
import { expect, test } from "vitest";
import {
  shapeDefinition,
  shapedSubmission,
  submissionDefinition,
} from "../../../src/commands/submission-definition.ts";
import { commandHashes } from "../../../src/kernel/command/command-plan.ts";
import { Definitions, type KnownDefinition } from "../../../src/server/services/definitions.ts";
import { systemClock } from "../../../src/std/clock.ts";
import { decorate } from "../../../src/std/decorate.ts";
import type { Json } from "../../../src/std/json.ts";
import { unwrap } from "../../../src/std/rejection.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import {
  documentOf,
  P,
  pageOf,
  pathOf,
  reaches,
  read,
  served,
  step,
  submit,
  TopicWorker,
} from "../../fixtures/broker/command-fixture.ts";
import { type Api, folder, serve } from "../../fixtures/server/api-fixture.ts";

async function workflowOf(api: Api, id: string): Promise<string> {
  return (await api.get(`/v1/executions/${id}`)).body["workflow"] as unknown as string;
}

function hashesOf(steps: readonly StepDocument[]) {
  return steps.map(({ cmd }) => cmd.cmd_metadata["cmd_hash"]);
}

test("documents that differ in data and metadata share a definition, and each has its own commands and hashes", async () => {
  const api = await served();
  const worker = await TopicWorker.register(api, "A_CMD");
  const commands = [
    { cmd_type: "a", cmd_data: { n: 1 } },
    { cmd_type: "a", cmd_data: { n: 2 }, cmd_metadata: { user: "jo" } },
    { cmd_type: "a", cmd_data: null },
    { cmd_type: "a" },
  ];
  for (const [i, { cmd_type, ...more }] of commands.entries())
    await submit(api, `w-${i}`, step(cmd_type, "A_CMD", more));
  const names = await Promise.all(commands.map((_, i) => workflowOf(api, `w-${i}`)));
  expect(new Set(names).size).toBe(1);
  for (const [i, command] of commands.entries()) {
    const { hashes, workflowHash } = commandHashes([command]);
    const { steps, workflow_hash } = await read(api, P, `w-${i}`);
    expect(workflow_hash).toBe(workflowHash);
    expect(hashesOf(steps)).toEqual(hashes);
    const work = await worker.claimOne();
    const { rondo: _, ...metadata } = work.task.cmd_metadata;
    expect({ ...work.task, cmd_metadata: metadata }).toEqual({
      cmd_data: {},
      ...command,
      cmd_metadata: { ...command.cmd_metadata, cmd_hash: hashes[0], workflow_hash: workflowHash },
    });
    await worker.done(work, { i });
    const [done] = await reaches(api, { project: P, id: `w-${i}` }, ["COMPLETE"]);
    expect(done?.cmd).toMatchObject({ cmd_result: { i }, cmd_metadata: { cmd_hash: hashes[0] } });
    const found = await api.get(`${pathOf(P)}?workflow_hash=${workflowHash}&cmd_hash=${hashes[0]}`);
    expect(pageOf(found, P).ids).toEqual([`w-${i}`]);
    const none = await api.get(`${pathOf(P)}?cmd_hash=${workflowHash}`);
    expect(pageOf(none, P).ids).toEqual([]);
  }
});

test("references between steps are resolved in the data of each document", async () => {
  const api = await served();
  const worker = await TopicWorker.register(api, "A_CMD");
  const second = (key: string) =>
    step("b", "A_CMD", { cmd_data: { [key]: "${steps[0].cmd_result.at}", text: `is ${key}` } });
  await submit(api, "x", step("a", "A_CMD", { cmd_data: { n: 1 } }), second("x"));
  await submit(api, "y", step("a", "A_CMD", { cmd_data: { n: 2 } }), second("y"));
  await submit(api, "z", step("a", "A_CMD"), step("b", "A_CMD", { cmd_data: "${steps[0].cmd_result}" }));
  expect(await workflowOf(api, "x")).toBe(await workflowOf(api, "y"));
  expect(await workflowOf(api, "z")).not.toBe(await workflowOf(api, "x"));
  for (let i = 0; i < 3; i++) {
    const work = await worker.claimOne();
    await worker.done(work, { at: work.task.cmd_metadata.rondo.workflow_id });
  }
  const sent: unknown[] = [];
  for (let i = 0; i < 3; i++) sent.push((await worker.claimOne()).task.cmd_data);
  expect(sent).toContainEqual({ x: "x", text: "is x" });
  expect(sent).toContainEqual({ y: "y", text: "is y" });
  expect(sent).toContainEqual({ at: "z" });
  expect((await read(api, P, "x")).steps[1]?.cmd.cmd_data).toEqual({
    x: "${steps[0].cmd_result.at}",
    text: "is x",
  });
});

test("a document with a definition of its own is found again, also by a server that would make a shape of it", async () => {
  const store = `file:${folder()}`;
  const old = await serve({ store });
  // A node of an older version is in the cluster.
  Object.defineProperty(old.server.engine, "reads", { get: () => 7, configurable: true });
  const steps = [step("a", "A_CMD", { cmd_data: { n: 1 } })];
  const first = documentOf(await old.post(pathOf(P), { steps, workflow_id: "w" }));
  expect(await workflowOf(old, "w")).toBe(`commands-${first.workflow_hash.slice(0, 16)}`);
  await old.close();
  const api = await serve({ store });
  const again = await api.post(pathOf(P), { steps, workflow_id: "w" });
  expect(again.status).toBe(200);
  expect(documentOf(again)).toEqual(await read(api, P, "w"));
  const elsewhere = [step("a", "B_CMD", { cmd_data: { n: 1 } })];
  const refused = await api.post(pathOf(P), { steps: elsewhere, workflow_id: "w" });
  expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("other topics or options")]);
  const other = [step("a", "A_CMD", { cmd_data: { n: 2 } })];
  expect((await api.post(pathOf(P), { steps: other, workflow_id: "w" })).status).toBe(409);
  // The other way round: the older form finds an execution of a shape.
  await submit(api, "shaped", ...steps);
  expect(await workflowOf(api, "shaped")).toMatch(/^commands-of-/);
  Object.defineProperty(api.server.engine, "reads", { get: () => 7, configurable: true });
  expect((await api.post(pathOf(P), { steps, workflow_id: "shaped" })).status).toBe(200);
});

test("only a submission makes or starts a shape", async () => {
  const api = await served();
  await submit(api, "w", step("a", "A_CMD"));
  const workflow = await workflowOf(api, "w");
  expect((await api.post("/v1/executions", { workflow, input: { steps: [] } })).status).toBe(404);
  const phases = [{ name: "step-0", handlers: { "step-0": { command: { cmd_type: "a" }, topic: "A_CMD" } } }];
  const put = await api.post("/v1/workflows", { rondo: 1, name: "mine", phases, commands: "input" });
  expect([put.status, put.body["code"]]).toEqual([422, "invalid_definition"]);
});

test("documents with post-operations, references to the input or much data have definitions of their own", () => {
  const shapeOf = (command: Record<string, Json>) =>
    shapedSubmission({
      id: null,
      path: "",
      steps: [{ command: { cmd_type: "a", ...command }, topic: "T", options: {} }],
    });
  expect(shapeOf({ cmd_data: { a: "$" } })).toMatchObject({ input: '{"steps":[{"cmd_data":{"a":"$"}}]}' });
  expect(shapeOf({ cmd_metadata: { cmd_post_op: {} } })).toBeNull();
  expect(shapeOf({ cmd_metadata: ["no object"] })).toBeNull();
  for (const text of ["${input.a}", "${task.a}", "${nothing}"])
    expect(shapeOf({ cmd_data: { text } })).toBeNull();
  expect(shapeOf({ cmd_data: "x".repeat(20_000) })).toBeNull();
  // The hashes are those of a definition of its own.
  const steps = [{ command: { cmd_type: "a", cmd_data: { n: 1 } }, topic: "T", options: {} }];
  const own = submissionDefinition({ id: null, path: "", steps });
  expect(shapedSubmission({ id: null, path: "", steps })?.own[0]?.workflowHash).toBe(
    (own as { workflowHash: string }).workflowHash,
  );
});

test("the cache of shapes has room for so many steps, and a shape that two requests add counts once", async () => {
  const definitions = new Definitions({
    store: new MemoryStore(),
    schemas: {} as never,
    postOps: {} as never,
    topics: { check: async () => null },
    clock: systemClock(),
  });
  const add = async (type: string) => {
    const steps = Array.from({ length: 1_000 }, () => ({
      ...{ command: { cmd_type: type }, topic: "T", options: {}, path: "" },
    }));
    const workflow = { id: null, path: "", steps };
    const shaped = shapedSubmission(workflow) as NonNullable<ReturnType<typeof shapedSubmission>>;
    const { definition } = unwrap(submissionDefinition(workflow));
    return definitions.addShape(shaped.key, shapeDefinition(definition, shaped.references));
  };
  const added = await Promise.all(["a", "a", ..."bcdefghij"].map(add));
  expect(added.filter((known) => known !== null)).toHaveLength(11);
  expect(await add("k")).toBeNull();
});

test("a definition is not stored before a start in the minute after a start of it", async () => {
  const store = new MemoryStore();
  await store.open();
  const puts: number[] = [];
  let now = 1_000_000;
  const definitions = new Definitions({
    store: decorate<MemoryStore>(store, {
      addDefinitions: async (all) => {
        puts.push(all.length);
        return store.addDefinitions(all);
      },
    }),
    schemas: { of: () => Promise.reject(new Error("there is no schema")) } as never,
    postOps: {} as never,
    topics: { check: async () => null },
    clock: { now: () => now },
  });
  const known = async (type: string) => {
    const workflow = {
      id: null,
      path: "",
      steps: [{ command: { cmd_type: type }, topic: "T", options: {} }],
    };
    const shaped = shapedSubmission(workflow) as NonNullable<ReturnType<typeof shapedSubmission>>;
    const { definition } = unwrap(submissionDefinition(workflow));
    return (await definitions.addShape(
      shaped.key,
      shapeDefinition(definition, shaped.references),
    )) as KnownDefinition;
  };
  const [a, b] = [await known("a"), await known("b")];
  expect(await definitions.putMissing([a, a])).toEqual(new Set());
  // The starts may have been refused, so the definition has no execution that would keep it stored.
  expect(await definitions.putMissing([a, a])).toEqual(new Set([a.hash]));
  expect(puts).toEqual([1, 1]);
  definitions.noteStarted([a]);
  expect(await definitions.putMissing([a, a])).toEqual(new Set([a.hash]));
  expect(puts).toEqual([1, 1]);
  expect(await definitions.putMissing([a, b])).toEqual(new Set([a.hash]));
  expect(puts).toEqual([1, 1, 1]);
  definitions.noteStarted([b]);
  now += 60_000;
  expect(await definitions.putMissing([a, b])).toEqual(new Set([a.hash, b.hash]));
  expect(puts).toEqual([1, 1, 1, 2]);
});

test("a shape whose name seems to have another definition is stored for itself, not refused", async () => {
  const store = new MemoryStore();
  await store.open();
  // PostgreSQL answers like this if another request stores the same shape at the same moment.
  const racing = decorate<MemoryStore>(store, { addDefinitions: async (all) => all.map(() => "other") });
  const definitions = new Definitions({
    store: racing,
    schemas: { of: () => Promise.reject(new Error("there is no schema")) } as never,
    postOps: {} as never,
    topics: { check: async () => null },
    clock: systemClock(),
  });
  const workflow = {
    id: null,
    path: "",
    steps: [{ command: { cmd_type: "a" }, topic: "T", options: {} }],
  };
  const { key, references } = shapedSubmission(workflow) as NonNullable<ReturnType<typeof shapedSubmission>>;
  const { definition } = unwrap(submissionDefinition(workflow));
  const known = unwrap(
    (await definitions.addShape(key, shapeDefinition(definition, references))) ?? undefined,
  );
  expect(await definitions.putAll([known as never])).toEqual(new Set());
  expect((await store.getDefinition({ newestOf: known?.definition.name as string }))?.hash).toBe(known?.hash);
});
