import type { EnginePort } from "../../engine/engine-port.ts";
import { isRejection, RondoError } from "../../std/rejection.ts";

/**
 * Whether nothing more will come of an execution: it has ended, or is gone. Throws if nobody can say so just now, as
 * while it moves to another node: a stream must not end for that.
 */
export async function isOver(engine: Pick<EnginePort, "inspect">, execution: string): Promise<boolean> {
  const found = await engine.inspect(execution);
  if (!isRejection(found)) return found.view.finishedAt !== null || found.view.status === "damaged";
  if (found.code === "not_found") return true;
  throw new RondoError(found);
}
