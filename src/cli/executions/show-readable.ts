/** Shows damaged executions. The CLI prints the part that can be read, then reports the damage and ends with exit code 8. */
import { ExecutionFailed } from "../../sdk/errors.ts";
import type { ExecutionHandle } from "../../sdk/handle.ts";
import { RondoError } from "../../std/rejection.ts";

/** Runs `show`. Afterwards throws `ExecutionFailed` if the execution is damaged, even if `show` has not failed. */
export async function showReadable(
  handle: Pick<ExecutionHandle<unknown>, "describe">,
  show: () => Promise<void>,
): Promise<void> {
  try {
    await show();
  } catch (thrown) {
    if (thrown instanceof RondoError && thrown.code === "wrong_status") await refuseDamaged(handle);
    throw thrown;
  }
  await refuseDamaged(handle);
}

/** Throws `ExecutionFailed` if the execution is damaged. */
export async function refuseDamaged(handle: Pick<ExecutionHandle<unknown>, "describe">): Promise<void> {
  const view = await handle.describe();
  if (view.status === "damaged") throw new ExecutionFailed(view);
}
