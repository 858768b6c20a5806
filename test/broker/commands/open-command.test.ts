// A receipt that names no attempt: which open command it can only be of, if any.
import { workflow } from "rondo";
import type { StepDocument } from "rondo/client";
import { describe, expect, test } from "vitest";
import {
  commandFinder,
  findOpenCommand,
  type OpenCommand,
  type OpenCommandParts,
} from "../../../src/commands/open-command.ts";
import { storeOf } from "../../../src/compose/compose.ts";
import { parseStored } from "../../../src/kernel/definition/parse-definition.ts";
import { compilePlan } from "../../../src/kernel/definition/plan.ts";
import { encodeAttempt } from "../../../src/protocol/attempt-id.ts";
import { attemptsOf } from "../../../src/server/other-nodes.ts";
import { isRejection, unwrap } from "../../../src/std/rejection.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { pathOf, read, step, TopicWorker } from "../../fixtures/broker/command-fixture.ts";
import { type Api, folder, serve, textOf, until } from "../../fixtures/server/api-fixture.ts";

const P = "project-x";
const A = step("a", "A_CMD");

const STORES: [name: string, store: () => Store][] = [
  ["memory", () => new MemoryStore()],
  ["SQLite", () => storeOf(`file:${folder()}`)],
];

/** What a receipt with the hashes of an execution's step would be of. */
async function find(
  api: Api,
  store: Store,
  [id, at, receiptTopic = "A_RECEIPT"]: [id: string, step: number, receiptTopic?: string],
): Promise<OpenCommand> {
  const parts: OpenCommandParts = {
    store,
    planOf: async (hash) => {
      const found = await store.getDefinition({ hash });
      return found === null ? null : compilePlan(unwrap(parseStored(JSON.parse(found.body))));
    },
    inspect: async (execution) => {
      const { engine } = api.server;
      const { commands = [], view } = unwrap(await engine.inspect(execution));
      return { commands, attempts: await attemptsOf({ engine }, execution), input: view.input };
    },
  };
  const { workflow_hash: workflowHash, steps } = await read(api, P, id);
  const { cmd } = steps[at] as StepDocument;
  const found = await findOpenCommand(parts, {
    workflowHash,
    cmdHash: textOf(cmd.cmd_metadata["cmd_hash"]),
    receiptTopic,
  });
  // The receipt repeats the command, which has both hashes.
  const attempt = await commandFinder(parts)({ ...cmd, cmd_result: { ok: true } }, receiptTopic);
  expect(isRejection(attempt) ? null : encodeAttempt(attempt)).toBe(
    found.kind === "one" ? found.attempt : null,
  );
  return found;
}

describe.each(STORES)("over a %s store", (_, open) => {
  test("it is the one that is open and has both hashes", async () => {
    const store = open();
    const api = await serve({ store });
    const worker = await TopicWorker.register(api, "A_CMD");
    const submit = (id: string, ...steps: unknown[]) => api.post(pathOf(P), { steps, workflow_id: id });
    await submit("w", A, step("b", "A_CMD"), A);
    // Not sent yet.
    await submit("elsewhere", step("a", "B_CMD"));
    expect(await find(api, store, ["elsewhere", 0, "B_RECEIPT"])).toEqual({ kind: "none" });
    const first = await worker.claimOne();
    expect(await find(api, store, ["w", 0])).toEqual({ kind: "one", execution: "w", attempt: first.attempt });
    // The receipt came on a topic of another command.
    expect(await find(api, store, ["w", 0, "B_RECEIPT"])).toEqual({ kind: "none" });
    // The command of another step is not open.
    expect(await find(api, store, ["w", 1])).toEqual({ kind: "none" });
    await worker.done(first, {});
    expect(await find(api, store, ["w", 0])).toEqual({ kind: "none" });
    const second = await worker.claimOne();
    expect(await find(api, store, ["w", 1])).toMatchObject({ kind: "one", attempt: second.attempt });
    await worker.done(second, {});
    // Equal to the first, and the one that is open now.
    const third = await worker.claimOne();
    expect(await find(api, store, ["w", 0])).toMatchObject({ kind: "one", attempt: third.attempt });
    await worker.done(third, {});
    expect(await find(api, store, ["w", 2])).toEqual({ kind: "none" });
  });

  test("it is none of two, be they of one project or of several", async () => {
    const store = open();
    const api = await serve({ store });
    const worker = await TopicWorker.register(api, "A_CMD");
    await api.post(pathOf(P), { steps: [A], workflow_id: "one" });
    const works = [await worker.claimOne()];
    expect(await find(api, store, ["one", 0])).toMatchObject({ kind: "one" });
    await api.post(pathOf("other"), { steps: [A], workflow_id: "two" });
    works.push(await worker.claimOne());
    expect(await find(api, store, ["one", 0])).toEqual({ kind: "several" });
    const other = works.find(({ task }) => task.cmd_metadata.rondo.workflow_id === "two");
    await worker.done(other as (typeof works)[number], {});
    // The receipt may be a duplicate of the other one's.
    expect(await find(api, store, ["one", 0])).toEqual({ kind: "several" });
    const own = works.find(({ task }) => task.cmd_metadata.rondo.workflow_id === "one");
    await worker.done(own as (typeof works)[number], {});
    await until(async () => (await find(api, store, ["one", 0])).kind === "none");
    await api.post(pathOf(P), { steps: [A], workflow_id: "later" });
    await worker.claimOne();
    expect(await find(api, store, ["later", 0])).toMatchObject({ kind: "one", execution: "later" });
  });

  test("it is none of a command that is sent for each of several tasks, also if one of them is left", async () => {
    const store = open();
    const api = await serve({ store });
    const worker = await TopicWorker.register(api, "A_CMD");
    const tasks = [{ n: 1 }, { n: 2 }];
    const flow = workflow({ name: "each" }).command("embed", {
      topic: "A_CMD",
      tasks,
      cmd: { cmd_type: "a" },
    });
    await api.rondo.start(flow, {}, { id: "e", project: P });
    const works = [await worker.claimOne(), await worker.claimOne()];
    expect(await find(api, store, ["e", 0])).toEqual({ kind: "several" });
    await worker.done(works[0] as (typeof works)[number], {});
    expect(await find(api, store, ["e", 0])).toEqual({ kind: "several" });
  });

  test("it may be of a workflow that was written in code, also if that has the hash of a submission", async () => {
    const store = open();
    const api = await serve({ store });
    const worker = await TopicWorker.register(api, "A_CMD");
    const coded = workflow({ name: "coded" }).command("embed", { topic: "A_CMD", cmd: { cmd_type: "a" } });
    await api.rondo.start(coded, {}, { id: "c", project: P });
    const work = await worker.claimOne();
    expect(await find(api, store, ["c", 0])).toEqual({ kind: "one", execution: "c", attempt: work.attempt });
    await api.post("/v1/executions/c/pause", {});
    expect(await find(api, store, ["c", 0])).toMatchObject({ kind: "one", execution: "c" });
    await api.post(pathOf(P), { steps: [A], workflow_id: "s" });
    await worker.claimOne();
    expect(await find(api, store, ["c", 0])).toEqual({ kind: "several" });
  });
});

test("hashes that are none find nothing", async () => {
  const store = new MemoryStore();
  const api = await serve({ store });
  const nothing = {
    store,
    planOf: async () => null,
    inspect: async () => ({ commands: [], attempts: [] }),
  };
  const hashes = { workflowHash: "x", cmdHash: "../..", receiptTopic: "A_RECEIPT" };
  expect(await findOpenCommand(nothing, hashes)).toEqual({ kind: "none" });
  for (const receipt of [{}, { cmd_metadata: null }, { cmd_metadata: { cmd_hash: 1, workflow_hash: [] } }])
    expect(await commandFinder(nothing)(receipt, "A_RECEIPT")).toMatchObject({ code: "invalid_input" });
  await api.close();
});
