/** Type tests of starting workflows and of handles. Compiled by tsc, never run. */
import { z } from "zod";
import { ExecutionFailed } from "../../../src/sdk/errors.ts";
import type { ExecutionHandle, RondoClient } from "../../../src/sdk/handle.ts";
import { workflow } from "../../../src/sdk/workflow.ts";
import { same, some } from "../../fixtures/sdk/same-type.ts";

const sized = workflow({
  name: "sized",
  input: z.object({ id: z.string(), size: z.coerce.number<string>() }),
})
  .phase("a", { process: ({ task }) => task.size + 1 })
  .returns(({ phases }) => ({ count: phases.a.count }));

export async function startTakesTheSchemasInput(rondo: RondoClient): Promise<void> {
  const execution = await rondo.start(sized, { id: "a", size: "1" }, { id: "x", tags: { a: "b" } });
  same<ExecutionHandle<{ count: number }>>()(execution);
  same<{ count: number }>()(await rondo.run(sized, { id: "a", size: "1" }, { timeout: "1m" }));
  // @ts-expect-error handlers see a number, a start takes a text
  await rondo.start(sized, { id: "a", size: 1 });
  // @ts-expect-error a member is missing
  await rondo.run(sized, { id: "a" });
  // @ts-expect-error a member is too much
  await rondo.start(sized, { id: "a", size: "1", other: 1 });
  // @ts-expect-error a misspelt option
  await rondo.start(sized, { id: "a", size: "1" }, { project_id: "p" });
}

export async function aWorkflowCanBeNamedByItsType(rondo: RondoClient): Promise<void> {
  const execution = await rondo.start<typeof sized>("sized", { id: "a", size: "1" });
  same<number>()((await execution.result({ signal: some<AbortSignal>() })).count);
  same<{ count: number }>()(await rondo.execution<typeof sized>("x").result());
  same<unknown>()(await rondo.run("sized", { whatever: 1 }));
  // @ts-expect-error a member is missing
  await rondo.start<typeof sized>("sized", { id: "a" });
}

export async function handles(rondo: RondoClient): Promise<void> {
  await using execution = rondo.execution("x");
  for await (const event of execution.events({ from: 1, detail: "full", follow: true }))
    same<number>()(event.seq);
  for await (const line of execution.logs({ after: 7, follow: true })) {
    same<number>()(line.task);
    same<string | undefined>()(line.run);
  }
  await execution.signal("approved", { by: "me" }, { id: "s1" });
  await execution.pause({ reason: "lunch", by: "me" });
  await execution.cancel();
  await execution.move({ version: "2.0.0" }, { dryRun: true, reason: "1 is retired" });
  await execution.move({ hash: "0".repeat(64) });
  // @ts-expect-error a version is named as such
  await execution.move("2.0.0");
  const [newest] = await rondo.versions("sized");
  same<string | null | undefined>()(newest?.version);
  same<boolean | undefined>()(newest?.canRetire);
  await rondo.bulk("move", { workflow: "sized" }, { version: "2.0.0" });
  same<string>()(await execution.why());
  const { phase } = await execution.describe();
  const status = await execution.status();
  same<string | null>()(phase);
  const page = await rondo.list({ status, workflow: "sized" });
  same<string | null>()(page.next);
  // @ts-expect-error a handle is not thenable
  execution.then(() => {});
}

export function errorsCarryTheExecution(error: unknown): void {
  if (error instanceof ExecutionFailed) same<string>()(error.execution.id);
}
