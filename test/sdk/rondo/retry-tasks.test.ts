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
  expect((await failure(execution.retryTasks(choice))).code).toBe("wrong_status");
  expect((await failure(execution.retryTasks({ phase: 7 } as never))).path).toBe("phase");
  broken.clear();
  expect(await execution.retryTasks({ phase: "write" })).toEqual({ tasks: 1, skipped: ["post"] });
  expect(await execution.result()).toEqual({ written: 4, failed: 0 });
});
