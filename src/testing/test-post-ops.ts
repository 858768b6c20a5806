/** Post-operations under test: results are stored in memory, and broadcasts are added to a list. Both take no virtual time. */
import { Performer } from "../commands/post-ops/post-op-performer.ts";
import { WebhookSecrets } from "../commands/post-ops/webhook-secrets.ts";
import { StateStores } from "../commands/state/state-stores.ts";
import type { GuardedAnswer, GuardedRequest } from "../net/guard/guarded-http.ts";
import type { Clock } from "../std/clock.ts";
import { isRejection, unwrap } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";

/** One try of a broadcast of a command. */
export interface TestBroadcast {
  /** The id of the broadcast, the same for all tries. */
  readonly id: string;
  /** The address. */
  readonly url: string;
  /** The body of the request, as JSON. */
  readonly body: unknown;
  /** When the broadcast was sent, in virtual time. */
  readonly at: number;
  /** The HTTP status of the answer. */
  readonly status: number;
}

/** Returns the HTTP status with which a broadcast is answered; undefined means 204. */
export type TestTarget = (told: Omit<TestBroadcast, "status">) => number | undefined;

export class TestPostOps {
  /** All broadcasts in the order of sending. Each try is an entry of its own. */
  readonly broadcasts: TestBroadcast[] = [];
  readonly #target: TestTarget;

  constructor(target: TestTarget = () => undefined) {
    this.#target = target;
  }

  /** Makes the performer of post-operations for one run. */
  performer(store: Store, clock: Clock): Performer {
    return new Performer({
      store,
      clock,
      stateStores: new StateStores({ store, settings: {}, onFault: () => {} }),
      guard: { refusalOf: () => null, send: async (request) => this.#send(request, clock) },
      secrets: unwrap(WebhookSecrets.parse([])),
      version: "test",
    });
  }

  #send({ url, headers, body = "null" }: GuardedRequest, clock: Clock): GuardedAnswer {
    const told = {
      id: headers?.["webhook-id"] ?? "",
      url,
      body: JSON.parse(body) as unknown,
      at: clock.now(),
    };
    const status = this.#target(told) ?? 204;
    this.broadcasts.push({ ...told, status });
    return { kind: "answer", status, headers: {}, text: "", isCut: false };
  }
}

/** Reads the value at a place of a state store; undefined if there is none. */
export async function stateAt(
  performer: Performer,
  place: { readonly store: string; readonly key: string; readonly partition?: string },
): Promise<unknown> {
  const found = await performer.readState({ ...place, partition: place.partition ?? null });
  if (isRejection(found)) return unwrap(found);
  return found === null ? undefined : (JSON.parse(found.value) as unknown);
}
