// Commands on the embedded store, from a submission over HTTP to the last receipt: done in process by `topic()`. By a
// worker over HTTP: remote-receipts.test.ts.
import { Fatal, topic, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import {
  eventsOf,
  P,
  RECEIPTED,
  reaches,
  read,
  served,
  statuses,
  step,
  submit,
} from "../../fixtures/broker/command-fixture.ts";
import { ended, until } from "../../fixtures/server/api-fixture.ts";

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
