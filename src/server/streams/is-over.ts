import type { EnginePort } from "../../engine/engine-port.ts";
import { DamagedData } from "../../kernel/journal/damage.ts";
import { isRejection, RondoError } from "../../std/rejection.ts";

/** Whether an execution has ended or was purged. Throws if the execution is damaged, or if its state cannot be read now. */
export async function isOver(engine: Pick<EnginePort, "inspect">, execution: string): Promise<boolean> {
  const found = await engine.inspect(execution);
  if (!isRejection(found)) {
    const { damage, finishedAt } = found.view;
    if (damage !== undefined) throw new DamagedData({ ...damage, execution });
    return finishedAt !== null;
  }
  if (found.code === "not_found") return true;
  throw new RondoError(found);
}
