// Commands on the embedded store, from a submission over HTTP to the last receipt: done in process by `topic()`, and by
// a worker over HTTP whose every word is the test's.
import { Fatal, topic, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { type Api, ended, folder, serve, until } from "../api/api-bench.ts";
import { eventsOf, pathOf, reaches, read, statuses, step, TopicWorker, type Work } from "./command-bench.ts";

const P = "project-x";

async function served(): Promise<Api> {
  return serve({ store: `file:${folder()}` });
}

async function submit(api: Api, id: string, ...steps: unknown[]): Promise<void> {
  const got = await api.post(pathOf(P), { steps, workflow_id: id });
  expect(got.status).toBe(201);
}

const RECEIPTED = "workflow.command.receipted";

describe("in process", () => {
  test("L3 three commands on three topics go out one after another, and all are complete at the end", async () => {
    const api = await served();
    const log: string[] = [];
    let open = 0;
    const slow = (name: string) =>
      topic(`${name}_CMD`, async ({ cmd }) => {
        open++;
        log.push(`${cmd.cmd_type} begins, ${open} open`);
        await new Promise((resolve) => setImmediate(resolve));
        log.push(`${cmd.cmd_type} ends`);
        open--;
        return { by: name };
      });
    // The last first: who serves earlier is no reason to be sent earlier.
    for (const name of ["C", "B", "A"]) api.rondo.serve(slow(name));
    await submit(api, "w", step("a", "A_CMD"), step("b", "B_CMD"), step("c", "C_CMD"));
    const steps = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE", "COMPLETE"]);
    expect(log).toEqual(["a", "b", "c"].flatMap((type) => [`${type} begins, 1 open`, `${type} ends`]));
    expect(steps.map(({ cmd }) => cmd.cmd_result)).toEqual([{ by: "A" }, { by: "B" }, { by: "C" }]);
    expect(await ended(api, "w")).toMatchObject({ status: "done" });
    expect(await eventsOf(api, "w", RECEIPTED)).toMatchObject([
      { phase: "step-0", n: 0, attempt: 1, proc_status: "COMPLETE", cmd_result: { by: "A" } },
      { phase: "step-1", proc_status: "COMPLETE" },
      { phase: "step-2", proc_status: "COMPLETE" },
    ]);
  });

  test("L5 an error is retried by its policy, then the workflow fails; retry sends the same command again", async () => {
    const api = await served();
    const seen: { cmd: unknown; attempt: number; key: string }[] = [];
    let isWell = false;
    api.rondo.serve(
      topic("A_CMD", ({ cmd, attempt, idempotencyKey: key }) => {
        seen.push({ cmd, attempt, key });
        if (!isWell) throw new Error("no luck");
        return { ok: true };
      }),
      topic("B_CMD", ({ cmd }) => cmd.cmd_data),
    );
    const last = step("b", "B_CMD", { cmd_data: { ok: "${steps[0].cmd_result.ok}" } });
    await submit(api, "w", step("a", "A_CMD", { cmd_data: { x: 1 } }), last);
    expect(await ended(api, "w")).toMatchObject({ status: "failed", error: { phase: "step-0" } });
    const document = await read(api, P, "w");
    expect(statuses(document)).toEqual(["ERROR", "PENDING"]);
    expect(document.steps[0]?.proc.proc_err).toMatchObject({ message: "no luck" });
    expect(document.steps[0]?.cmd.cmd_result).toEqual({});
    expect(seen.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(await eventsOf(api, "w", RECEIPTED)).toHaveLength(3);
    expect((await api.get("/v1/dead-letters")).body["data"]).toMatchObject([
      { execution: "w", phase: "step-0" },
    ]);

    isWell = true;
    await api.post("/v1/executions/w/retry", {});
    const [first, second] = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
    expect(first?.proc.proc_err).toBeNull();
    expect(second?.cmd.cmd_result).toEqual({ ok: true });
    expect(seen).toHaveLength(4);
    expect(new Set(seen.map(({ cmd }) => JSON.stringify(cmd))).size).toBe(1);
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
  });

  test("what will not get better is not tried again", async () => {
    const api = await served();
    let calls = 0;
    api.rondo.serve(
      topic("A_CMD", () => {
        calls++;
        throw new Fatal("no such repository");
      }),
    );
    await submit(api, "w", step("a", "A_CMD"));
    await ended(api, "w");
    expect(calls).toBe(1);
    expect((await read(api, P, "w")).steps[0]?.proc).toMatchObject({
      proc_status: "ERROR",
      proc_err: { message: "no such repository" },
    });
  });

  test("a command without an end in time is sent again by its policy, then it is an error", async () => {
    const api = await served();
    const seen: { attempt: number; key: string }[] = [];
    api.rondo.serve(
      topic("A_CMD", ({ attempt, idempotencyKey: key }) => {
        seen.push({ attempt, key });
        return new Promise(() => {});
      }),
    );
    await submit(api, "w", step("a", "A_CMD", { timeout: 20, retry: { attempts: 2, min: 0, max: 0 } }));
    expect(await ended(api, "w")).toMatchObject({ status: "failed" });
    expect(seen.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
    expect((await read(api, P, "w")).steps[0]?.proc).toMatchObject({
      proc_status: "ERROR",
      proc_err: { code: "timeout" },
      utc_receipted_timestamp: null,
    });
    // It was no receipt.
    expect(await eventsOf(api, "w", RECEIPTED)).toEqual([]);
  });

  test("L6 enrichment is in the result that is stored, read, and referred to", async () => {
    const api = await served();
    api.rondo.serve(
      topic("A_CMD", () => ({ vectors: 3, user: "from the worker" })),
      topic("B_CMD", ({ cmd }) => cmd.cmd_data),
    );
    const val = { project_id: P, user_id: "usr@lxi.com" };
    const prop_map = [
      { key: "__metadata__", val },
      { key: "user", val: null },
    ];
    const cmd_post_op = { cmd_result_enrichment: { prop_map } };
    await submit(
      api,
      "w",
      step("a", "A_CMD", { cmd_metadata: { cmd_post_op } }),
      step("b", "B_CMD", { cmd_data: "${steps[0].cmd_result.__metadata__}" }),
    );
    const [first, second] = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
    const result = { vectors: 3, user: null, __metadata__: val };
    expect(first?.cmd.cmd_result).toEqual(result);
    expect(second?.cmd.cmd_result).toEqual(val);
    expect((await eventsOf(api, "w", RECEIPTED))[0]).toMatchObject({ cmd_result: result });
    // As the tasks of any execution show it.
    const tasks = await api.get("/v1/executions/w/tasks?phase=step-0");
    expect(tasks.body["data"]).toMatchObject([{ status: "done", result }]);
  });

  test("L8 broadcasts hold no step up, and are told of with the command as it was handed in", async () => {
    const api = await served();
    api.rondo.serve(
      topic("A_CMD", () => ({ a: 1 })),
      topic("B_CMD", () => ({ b: 2 })),
    );
    const cmd_result_broadcasts = ["a", "b"].map((path) => ({
      url: `http://lxi-ui-api:6001/${path}`,
      static_payload: { message: "embedded" },
      retry: { attempts: 1 },
    }));
    const cmd_metadata = { cmd_post_op: { cmd_result_broadcasts } };
    await submit(api, "w", step("a", "A_CMD", { cmd_metadata }), step("b", "B_CMD"));
    const [first] = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
    expect(await ended(api, "w")).toMatchObject({ status: "done" });
    expect(first?.cmd.cmd_metadata).toMatchObject(cmd_metadata);
    for (const owed of first?.proc.post_ops ?? [])
      expect(owed).toMatchObject({
        op: "broadcast",
        target: expect.stringMatching(/^http:\/\/lxi-ui-api:6001\//),
      });
  });

  test("a reference keeps the type of its value, and is inserted in a longer text", async () => {
    const api = await served();
    const got: unknown[] = [];
    api.rondo.serve(
      topic("A_CMD", () => ({ list: [{ n: 7 }], "a key": true, text: "t" })),
      topic("B_CMD", ({ cmd }) => {
        got.push(cmd.cmd_data);
        return {};
      }),
    );
    const cmd_data = {
      all: "${steps[0].cmd_result}",
      n: "${steps[0].cmd_result.list[0].n}",
      key: '${steps[0].cmd_result["a key"]}',
      text: "n=${steps[0].cmd_result.list[0].n}, ${steps[0].cmd_result.text}, ${steps[0].cmd_result.list}",
      nested: [{ deep: "${steps[0].cmd_result.text}" }],
      plain: "$ {x} {y}",
    };
    await submit(api, "w", step("a", "A_CMD"), step("b", "B_CMD", { cmd_data }));
    const [, second] = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
    expect(got).toEqual([
      {
        all: { list: [{ n: 7 }], "a key": true, text: "t" },
        n: 7,
        key: true,
        text: 'n=7, t, [{"n":7}]',
        nested: [{ deep: "t" }],
        plain: "$ {x} {y}",
      },
    ]);
    // Read back as it was handed in: its hash is over that.
    expect(second?.cmd.cmd_data).toEqual(cmd_data);
  });

  test("a reference that leads nowhere fails its command, which is not sent", async () => {
    const api = await served();
    let sent = 0;
    api.rondo.serve(
      topic("A_CMD", () => ({ a: 1 })),
      topic("B_CMD", () => ++sent),
    );
    await submit(api, "w", step("a", "A_CMD"), step("b", "B_CMD", { cmd_data: "${steps[0].cmd_result.b}" }));
    await ended(api, "w");
    const { steps } = await read(api, P, "w");
    expect(steps.map(({ proc }) => proc.proc_status)).toEqual(["COMPLETE", "ERROR"]);
    expect(JSON.stringify(steps[1]?.proc.proc_err)).toContain("steps[0].cmd_result.b");
    expect(sent).toBe(0);
  });

  test("L13 receipts of two workflows of a project at the same moment both count", async () => {
    const api = await served();
    const gates: (() => void)[] = [];
    api.rondo.serve(
      topic("A_CMD", async ({ execution }) => {
        await new Promise<void>((resolve) => gates.push(resolve));
        return { of: execution };
      }),
    );
    const names = Array.from({ length: 20 }, (_, i) => `w-${i}`);
    for (const id of names) await submit(api, id, step("a", "A_CMD"), step("b", "A_CMD"));
    for (let round = 0; round < 2; round++) {
      await until(() => gates.length === names.length);
      for (const open of gates.splice(0)) open();
    }
    for (const id of names) {
      const steps = await reaches(api, { project: P, id }, ["COMPLETE", "COMPLETE"]);
      expect(steps.map(({ cmd }) => cmd.cmd_result)).toEqual([{ of: id }, { of: id }]);
    }
  });

  test("a command in a workflow of another kind is read in the same shape", async () => {
    const api = await served();
    const mixed = workflow<{ repo: string }>({ name: "mixed" })
      .command("embed", {
        topic: "A_CMD",
        cmd: { cmd_type: "a", cmd_data: { repo: "${input.repo}" } },
        retry: { attempts: 1 },
      })
      .command("each", {
        enumerate: () => [{ n: 1 }, { n: 2 }],
        topic: "B_CMD",
        cmd: { cmd_type: "b", cmd_data: { n: "${task.n}", at: "${steps[0].cmd_result.at}" } },
      })
      .returns(async ({ phases }) => {
        const all: unknown[] = [];
        for await (const result of phases.each.results()) all.push(result);
        return all;
      });
    api.rondo.serve(
      mixed,
      topic<{ repo: string }>("A_CMD", ({ cmd }) => ({ at: `in ${cmd.cmd_data.repo}` })),
      topic<{ n: number; at: string }>("B_CMD", ({ cmd }) => `${cmd.cmd_data.n} ${cmd.cmd_data.at}`),
    );
    const handle = await api.rondo.start(mixed, { repo: "lxi" }, { project: P, id: "m" });
    expect(((await handle.result()) as string[]).sort()).toEqual(["1 in lxi", "2 in lxi"]);
    const { steps } = await read(api, P, "m");
    expect(steps.map(({ proc }) => proc.proc_status)).toEqual(["COMPLETE", "COMPLETE"]);
    expect(steps[0]?.cmd.cmd_result).toEqual({ at: "in lxi" });
    expect(steps[1]?.proc.tasks).toMatchObject({ total: 2, done: 2 });
  });
});

describe("over HTTP", () => {
  test("a command carries both hashes and the mark that tells its receipt", async () => {
    const api = await served();
    const worker = await TopicWorker.register(api, "A_CMD");
    const cmd_metadata = {
      user_id: "usr@lxi.com",
      cmd_hash: "given",
      workflow_hash: "given",
      rondo: "given",
    };
    await submit(api, "w", step("a", "A_CMD", { cmd_data: { x: [1] }, cmd_metadata }));
    const work = await worker.claimOne();
    const { workflow_hash, steps } = await read(api, P, "w");
    expect(work.do).toBe("command");
    expect(work.task).toEqual({
      cmd_type: "a",
      cmd_data: { x: [1] },
      cmd_metadata: {
        user_id: "usr@lxi.com",
        cmd_hash: steps[0]?.cmd.cmd_metadata["cmd_hash"],
        workflow_hash,
        rondo: { workflow_id: "w", step: 0, attempt: work.attempt, token: work.token },
      },
    });
    expect(steps[0]?.cmd.cmd_metadata).toEqual({
      user_id: "usr@lxi.com",
      cmd_hash: expect.stringMatching(/^[\da-f]{64}$/),
      workflow_hash,
    });
    await worker.receipt(work, { status: "done" });
    // A receipt without a result: an empty one.
    const [first] = await reaches(api, { project: P, id: "w" }, ["COMPLETE"]);
    expect(first?.cmd.cmd_result).toEqual({});
  });

  test("proc_status goes from PENDING over RUNNING and ERROR to COMPLETE", async () => {
    const api = await served();
    await submit(
      api,
      "w",
      step("a", "A_CMD", { retry: { attempts: 3, min: "1h", max: "1h" } }),
      step("b", "A_CMD"),
    );
    expect(statuses(await read(api, P, "w"))).toEqual(["PENDING", "PENDING"]);
    const worker = await TopicWorker.register(api, "A_CMD");
    const first = await worker.claimOne();
    await reaches(api, { project: P, id: "w" }, ["RUNNING", "PENDING"]);
    await worker.failed(first, "busy");
    const [failed] = await reaches(api, { project: P, id: "w" }, ["ERROR", "PENDING"]);
    expect(failed?.proc.proc_err).toMatchObject({ message: "busy" });
    expect((await api.get("/v1/executions/w")).body["status"]).toBe("running");
    await submit(api, "v", step("a", "A_CMD"));
    await worker.done(await worker.claimOne(), { done: 1 });
    const [complete] = await reaches(api, { project: P, id: "v" }, ["COMPLETE"]);
    expect(complete?.proc.utc_receipted_timestamp).toMatch(/Z$/);
  });

  test("L4 a repeated receipt changes nothing: no second command, no second outcome", async () => {
    const api = await served();
    const worker = await TopicWorker.register(api, "A_CMD", "B_CMD");
    await submit(api, "w", step("a", "A_CMD"), step("b", "B_CMD"));
    const first = await worker.claimOne();
    expect(await worker.done(first, { n: 1 })).toBe("accepted");
    expect(await worker.done(first, { n: 2 })).toMatch(/duplicate|gone/);
    const second = await worker.claimOne();
    expect(second.task.cmd_metadata.rondo.step).toBe(1);
    expect(await worker.done(first, { n: 3 })).toMatch(/duplicate|gone/);
    expect(await worker.claim(1, 0)).toEqual([]);
    await worker.done(second, {});
    const [a] = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
    expect(a?.cmd.cmd_result).toEqual({ n: 1 });
    expect(await eventsOf(api, "w", RECEIPTED)).toHaveLength(2);
    // Also from a worker that has forgotten what it said.
    const other = await TopicWorker.register(api, "A_CMD");
    expect(await other.failed(first, "late")).toMatch(/duplicate|stale|late|gone/);
    expect(statuses(await read(api, P, "w"))).toEqual(["COMPLETE", "COMPLETE"]);
    expect((await api.get("/v1/executions/w")).body["status"]).toBe("done");
  });

  test("L10 a receipt for what is not there, or with another's token, is refused and changes nothing", async () => {
    const api = await served();
    const worker = await TopicWorker.register(api, "A_CMD");
    await submit(api, "w", step("a", "A_CMD"), step("b", "A_CMD"));
    await submit(api, "v", step("a", "A_CMD"));
    const [one, two] = (await claimBoth(worker)) as [Work, Work];
    const foreign = [
      { attempt: one.attempt, token: two.token },
      { attempt: one.attempt.replace(/^[wv]\./, "nobody."), token: one.token },
      { attempt: one.attempt.replace("step-0", "step-1"), token: one.token },
      { attempt: "nonsense", token: one.token },
    ];
    for (const receipt of foreign) expect(await worker.done(receipt, { forged: true })).not.toBe("accepted");
    for (const id of ["w", "v"]) {
      expect((await read(api, P, id)).steps[0]?.proc.proc_status).toBe("RUNNING");
      expect(await eventsOf(api, id, RECEIPTED)).toEqual([]);
    }
    expect((await api.get("/v1/dead-letters")).body["data"]).toEqual([]);
    await worker.done(one, {});
    await worker.done(two, {});
    await reaches(api, { project: P, id: "v" }, ["COMPLETE"]);
  });

  test("receipts that come out of order count, and two equal commands are told apart by their step", async () => {
    const api = await served();
    const worker = await TopicWorker.register(api, "A_CMD");
    await submit(api, "w", step("a", "A_CMD"), step("a", "A_CMD"));
    await submit(api, "v", step("a", "A_CMD"));
    const [one, two] = (await claimBoth(worker)) as [Work, Work];
    // The second first.
    expect(await worker.done(two, { of: two.task.cmd_metadata.rondo.workflow_id })).toBe("accepted");
    expect(await worker.done(one, { of: one.task.cmd_metadata.rondo.workflow_id })).toBe("accepted");
    const next = await worker.claimOne();
    expect(next.task.cmd_metadata.rondo).toMatchObject({ workflow_id: "w", step: 1 });
    expect(next.task.cmd_metadata["cmd_hash"]).toBe(
      [one, two].find(({ task }) => task.cmd_metadata.rondo.workflow_id === "w")?.task.cmd_metadata[
        "cmd_hash"
      ],
    );
    await worker.done(next, { of: "w", again: true });
    const steps = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
    expect(steps.map(({ cmd }) => cmd.cmd_result)).toEqual([{ of: "w" }, { of: "w", again: true }]);
    expect((await read(api, P, "v")).steps[0]?.cmd.cmd_result).toEqual({ of: "v" });
  });

  test("a cancelled workflow sends nothing more, and its commands say so", async () => {
    const api = await served();
    const worker = await TopicWorker.register(api, "A_CMD", "B_CMD");
    await submit(api, "w", step("a", "A_CMD"), step("b", "B_CMD"), step("c", "B_CMD"));
    await worker.done(await worker.claimOne(), { a: 1 });
    const open = await worker.claimOne();
    await api.post("/v1/executions/w/cancel", {});
    await worker.receipt(open, { status: "cancelled" });
    expect(await ended(api, "w")).toMatchObject({ status: "cancelled" });
    expect(statuses(await read(api, P, "w"))).toEqual(["COMPLETE", "CANCELLED", "CANCELLED"]);
    expect(await worker.claim(1, 0)).toEqual([]);
    // Retried, it goes on where it was.
    await api.post("/v1/executions/w/retry", {});
    await worker.done(await worker.claimOne(), {});
    await worker.done(await worker.claimOne(), {});
    const [first] = await reaches(api, { project: P, id: "w" }, ["COMPLETE", "COMPLETE", "COMPLETE"]);
    expect(first?.cmd.cmd_result).toEqual({ a: 1 });
  });

  test("what is read is the same after a restart of the server", async () => {
    const store = `file:${folder()}`;
    const api = await serve({ store });
    const worker = await TopicWorker.register(api, "A_CMD");
    await submit(api, "w", step("a", "A_CMD"), step("b", "A_CMD", { cmd_data: "${steps[0].cmd_result.a}" }));
    await worker.done(await worker.claimOne(), { a: { deep: 1 } });
    await reaches(api, { project: P, id: "w" }, ["COMPLETE", "PENDING"]);
    const before = await read(api, P, "w");
    await api.close();
    const again = await serve({ store });
    expect(await read(again, P, "w")).toEqual(before);
    const other = await TopicWorker.register(again, "A_CMD");
    const work = await other.claimOne();
    expect(work.task.cmd_data).toEqual({ deep: 1 });
    await other.done(work, {});
    await reaches(again, { project: P, id: "w" }, ["COMPLETE", "COMPLETE"]);
  });
});

/** Two commands that are open at the same time. */
async function claimBoth(worker: TopicWorker): Promise<Work[]> {
  const works: Work[] = [];
  while (works.length < 2) works.push(...(await worker.claim(2 - works.length)));
  return works;
}
