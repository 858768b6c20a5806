/** The enumeration of a handler's tasks at a simulated worker, page by page. */
import { tasksOf } from "../workload/behaviour.ts";
import { MAPPED } from "../workload/program.ts";
import { placeOf } from "./place.ts";
import type { SimAttempt } from "./sim-attempt.ts";

/** Sends one page at a time. The next one follows the answer to the last one, so pages keep their order. */
export function enumerate(attempt: SimAttempt): void {
  const { grant, item, host } = attempt;
  const { world, random } = host;
  const plan = world.handlerPlan(grant);
  const byIdentity = plan?.definition.identity !== undefined;
  const { texts, keys, identities } =
    grant.workflow === MAPPED ? mapped(attempt) : tasksOf(world.behaviour.seed, grant, plan);
  let from = byIdentity ? 0 : (grant.resume?.count ?? 0);
  const fails = !world.behaviour.healed && world.has("failing-tasks") && random.chance(0.1);
  const stopAt = fails ? random.below(texts.length + 1) : texts.length;
  const step = () => {
    if (attempt.isOver) return;
    if (from >= stopAt) {
      const payload = JSON.stringify({ name: "Error", message: "enumeration fails" });
      attempt.end(
        fails ? { status: "failed", payload } : { status: "done", payload: "null", total: texts.length },
      );
      return;
    }
    const to = Math.min(stopAt, from + random.between(1, 4));
    const slice = <T>(values: readonly T[]) => values.slice(from, to);
    const page = {
      kind: "page" as const,
      ...placeOf(grant),
      attempt: item.attempt,
      claim: item.claim,
      from,
      tasks: slice(texts),
      keys: slice(keys),
      identities: byIdentity ? slice(identities) : null,
    };
    from = to;
    attempt.ask(page, () => host.later(random.pick([0, 3, 60]), step));
  };
  host.later(0, step);
}

/** The items of a map, from the places in the journal of the parent that the input names. */
function mapped({ grant, host }: SimAttempt): ReturnType<typeof tasksOf> {
  const { parent } = host.world.ledger.model(grant.execution) ?? {};
  const { pages } = JSON.parse(grant.input) as { readonly pages: readonly number[] };
  const texts = pages.flatMap((seq) => {
    const event = host.world.readEvent(parent?.execution ?? "", seq);
    const items = event?.kind === "task.step" ? (JSON.parse(event.result ?? "[]") as unknown[]) : [];
    return items.map((item) => JSON.stringify(item));
  });
  return { texts, keys: texts.map(() => "k0"), identities: [] };
}
