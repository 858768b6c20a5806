/**
 * The index of triggers: documents that name the workflows which an event may start, signal or cancel. A document is only a hint. The
 * newest definition of the workflow decides, so a document that was made for an older definition does no harm.
 */
import type { Definition } from "../kernel/definition/definition.ts";
import { encodeName } from "../kernel/definition/names.ts";
import { isVersionedName } from "../kernel/definition/version-name.ts";
import { decorate } from "../std/decorate.ts";
import type { Store } from "../store/store.ts";

const TRIGGER = "trigger";

/** The most workflows with a trigger for one event. */
const WORKFLOWS_MAX = 2_000;

/** Decorates a store so that triggers are indexed when a definition is stored. */
export function withTriggerIndex<S extends Pick<Store, "putDefinition" | "putDocument">>(store: S): S {
  const replaced: Pick<Store, "putDefinition"> = {
    putDefinition: async (name, hash, body) => {
      // Only triggers of the newest definition of a workflow count.
      if (isVersionedName(name)) return store.putDefinition(name, hash, body);
      const { on = [] } = JSON.parse(body) as Partial<Definition>;
      const events = new Set(
        on.flatMap(({ event, cancelOn = [] }) => [event, ...cancelOn.map((one) => one.event)]),
      );
      // The index is stored before the definition. If a crash came between them in the other order, the index would stay incomplete,
      // because a stored definition is not stored again.
      for (const event of events) await store.putDocument(TRIGGER, `${encodeName(event)} ${name}`, "{}");
      await store.putDefinition(name, hash, body);
    },
  };
  return decorate(store, replaced as Partial<S>);
}

/** The names of workflows that may have a trigger for the event. */
export async function workflowsOn(
  store: Pick<Store, "listDocuments">,
  event: string,
): Promise<readonly string[]> {
  const prefix = encodeName(event);
  const found = await store.listDocuments(TRIGGER, {
    after: `${prefix} `,
    before: `${prefix}!`,
    max: WORKFLOWS_MAX,
  });
  return found.map(({ id }) => id.slice(prefix.length + 1));
}
