/** Dropping a damaged execution: it is forgotten, and a parent that waits for it hears that it has failed. */

import { endOfChild } from "../../kernel/advance.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { DAMAGED, type MailboxMessage, type Store } from "../../store/store.ts";
import type { EnginePort } from "../engine-port.ts";
import { toMailboxMessage } from "../mailbox/mailbox.ts";

/** Drops it; a rejection says why not. */
export async function dropDamaged(
  parts: { readonly store: Pick<Store, "dropDamaged">; readonly engine: Pick<EnginePort, "purge"> },
  view: ExecutionView,
): Promise<Rejection | null> {
  const { store, engine } = parts;
  const { id } = view;
  if (view.status !== DAMAGED || !(await store.dropDamaged(id, tellParent(view))))
    return reject(
      "wrong_status",
      `execution ${id} is ${view.status}: only damaged executions can be dropped`,
      {
        hint: "cancel it, or wait until it has ended and is purged",
      },
    );
  // Whoever has the partition here looks for letters once more.
  engine.purge([id]);
  return null;
}

function tellParent({ id, parent }: ExecutionView): MailboxMessage | null {
  if (parent === null) return null;
  const message = `the child ${id} was damaged, and was dropped`;
  const payload = JSON.stringify({ code: "Damaged", message, fatal: true });
  return toMailboxMessage(endOfChild(id, { id: `${id}/dropped`, parent, status: "failed", payload }));
}
