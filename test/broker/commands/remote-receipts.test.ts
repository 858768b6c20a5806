// Commands on the embedded store, done by a worker over HTTP whose every word is the test's.
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
  TopicWorker,
  type Work,
} from "../../fixtures/broker/command-fixture.ts";
import { ended, folder, serve } from "../../fixtures/server/api-fixture.ts";

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
        rondo: {
          ...{ workflow_id: "w", step: 0, task: 0, attempt: work.attempt, token: work.token },
          idempotency_key: work.idempotencyKey,
        },
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
