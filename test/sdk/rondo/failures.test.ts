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

test("next and returns are tried again by their own budgets, also after their time limit", async () => {
  const attempts: string[] = [];
  const aborted = (signal: AbortSignal) =>
    new Promise<never>((_, fail) => signal.addEventListener("abort", () => fail(signal.reason as Error)));
  const retry = { attempts: 5, backoff: "constant", min: 1 } as const;
  const flow = workflow({ name: "answers" })
    .phase(
      "a",
      {},
      {
        next: {
          decide: ({ attempt }) => {
            attempts.push(`next ${attempt}`);
            if (attempt < 5) throw new Error("not yet");
            return "end";
          },
          among: ["end"],
          retry,
        },
      },
    )
    .phase("end", {}, { final: true })
    .returns(
      ({ attempt, signal }) => {
        attempts.push(`returns ${attempt}`);
        return attempt < 2 ? aborted(signal) : "in time";
      },
      { retry, timeout: 20 },
    );
  const rondo = await open([flow]);
  expect(await rondo.run(flow, null)).toBe("in time");
  expect(attempts).toEqual(["next 1", "next 2", "next 3", "next 4", "next 5", "returns 1", "returns 2"]);
});
