// What later code is told of tasks that failed: the number, the task itself, and the error.
import { Fatal, workflow } from "rondo";
import { expect, test } from "vitest";
import { all, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

test("failures come with their tasks: enumerated, listed, or the input", async () => {
  const refuse = (name: string) => {
    throw new Fatal(`no ${name}`);
  };
  const flow = workflow<{ names: string[] }>({ name: "failing" })
    .phase("many", {
      enumerate: ({ input }) => input.names.map((name) => ({ name })),
      process: ({ task }) => (task.name === "bob" ? refuse(task.name) : task.name),
      tolerate: 5,
    })
    .phase("listed", { tasks: ["x", "y"], process: ({ task }) => refuse(task), tolerate: 5 })
    .phase("single", { process: ({ task }) => refuse(task.names.join("+")), tolerate: 5 })
    .returns(async ({ phases }) => ({
      many: await all(phases.many.failures()),
      listed: (await all(phases.listed.failures())).map(({ data }) => data as string),
      single: (await all(phases.single.failures())).map(({ task, data }) => [task, data] as [number, never]),
    }));
  const rondo = await open([flow]);
  const names = ["ann", "bob", "cleo"];
  const { many, listed, single } = (await rondo.run(flow, { names })) as never as {
    many: unknown;
    listed: string[];
    single: unknown;
  };
  expect(many).toEqual([
    { task: 1, data: { name: "bob" }, error: expect.objectContaining({ name: "Fatal", message: "no bob" }) },
  ]);
  expect(new Set(listed)).toEqual(new Set(["x", "y"]));
  expect(single).toEqual([[0, { names }]]);
});
