// Chosen tasks run again in an execution that is done; dead letters hold what is still failed.
import { Fatal, workflow } from "rondo";
import { expect, test } from "vitest";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

test("a task that failed is repaired after the end, without what came after it", async () => {
  const broken = new Set(["b", "d"]);
  const ran: string[] = [];
  const flow = workflow({ name: "letters" })
    .phase("write", {
      tasks: ["a", "b", "c", "d"],
      process: ({ task }) => {
        ran.push(task);
        if (broken.has(task)) throw new Fatal(`no ${task}`);
        return task;
      },
      tolerate: 2,
    })
    .phase("post", { process: () => void ran.push("post") })
    .returns(({ phases }) => ({ written: phases.write.count, failed: phases.write.failed }));
  const rondo = await open([flow]);
  const execution = await rondo.start(flow, null);
  expect(await execution.result()).toEqual({ written: 2, failed: 2 });
  ran.length = 0;
  broken.delete("b");
  const choice = { phase: "write", numbers: [1] };
  expect(await execution.retryTasks(choice, { dryRun: true })).toEqual({ tasks: 1, skipped: ["post"] });
  expect(await execution.retryTasks(choice, { id: "once" })).toEqual({ tasks: 1, skipped: ["post"] });
  expect(await execution.result()).toEqual({ written: 3, failed: 1 });
  expect(ran).toEqual(["b"]);
  expect(await execution.retryTasks(choice, { id: "once" })).toEqual({ tasks: 1, skipped: ["post"] });
  expect((await failure(execution.retryTasks(choice))).code).toBe("wrong_status");
  expect((await failure(execution.retryTasks({ phase: 7 } as never))).path).toBe("phase");
  broken.clear();
  expect(await execution.retryTasks({ phase: "write" })).toEqual({ tasks: 1, skipped: ["post"] });
  expect(await execution.result()).toEqual({ written: 4, failed: 0 });
});

/** Task 0 of two fails with a Timeout, 1 with a Fatal; task 2 may not run. */
function failing(tolerate: number) {
  const broken = new Set([0, 1]);
  const ran: string[] = [];
  const flow = workflow({ name: "letters" })
    .phase("write", {
      tasks: [0, 1, 2],
      concurrency: 1,
      retry: { attempts: 1 },
      process: ({ task }) => {
        ran.push(`write ${task}`);
        if (broken.has(task))
          throw Object.assign(new Error(`no ${task}`), task === 0 ? { name: "Timeout" } : {});
        return task;
      },
      tolerate,
    })
    .phase("post", { process: () => void ran.push("post") })
    .returns(({ phases }) => phases.write.count);
  return { flow, broken, ran };
}

test("tasks are chosen by the name of their error, or by the id of its group", async () => {
  const { flow, broken, ran } = failing(2);
  const rondo = await open([flow]);
  const execution = await rondo.start(flow, null);
  expect(await execution.result()).toBe(1);
  broken.clear();
  ran.length = 0;
  const chosen = (choice: object, dryRun = true) => execution.retryTasks(choice, { dryRun });
  expect(await chosen({ error: "Timeout" })).toEqual({ tasks: 1, skipped: ["post"] });
  expect(await chosen({ error: "Error", phase: "write" })).toEqual({ tasks: 1, skipped: ["post"] });
  expect((await failure(chosen({ error: "Other" }))).code).toBe("not_found");
  expect((await failure(chosen({ error: "Timeout", phase: "post" }))).code).toBe("not_found");
  expect((await failure(chosen({ error: "Timeout", numbers: [0] }))).path).toBe("error");
  expect((await failure(chosen({}))).path).toBe("phase");
  const once = { id: "once" };
  expect(await execution.retryTasks({ error: "Timeout" }, once)).toEqual({ tasks: 1, skipped: ["post"] });
  expect(await execution.result()).toBe(2);
  expect(await execution.retryTasks({ error: "Timeout" }, once)).toEqual({ tasks: 1, skipped: ["post"] });
  expect((await failure(execution.retryTasks({ error: "Timeout" }, { id: "new" }))).code).toBe("not_found");
  expect(ran).toEqual(["write 0"]);
});

test("in an execution that failed only the chosen tasks run; it goes on once all tasks of the phase are done", async () => {
  const { flow, broken, ran } = failing(0);
  const rondo = await open([flow]);
  const execution = await rondo.start(flow, null);
  expect((await failure(execution.result())).message).toMatch(/no 0/);
  const finished = async () => void (await execution.result().catch(() => null));
  broken.delete(0);
  ran.length = 0;
  expect(await execution.retryTasks({ error: "Timeout" })).toEqual({ tasks: 1, skipped: [] });
  await finished();
  expect((await execution.describe()).error).toMatchObject({ code: "tasks_cancelled" });
  expect(ran).toEqual(["write 0"]);
  broken.clear();
  expect(await execution.retryTasks({ phase: "write", numbers: [1, 2] })).toEqual({ tasks: 2, skipped: [] });
  expect(await execution.result()).toBe(3);
  expect(ran).toEqual(["write 0", "write 1", "write 2", "post"]);
});
