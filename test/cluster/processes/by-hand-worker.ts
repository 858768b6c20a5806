/** A worker in another language, written by hand: one request at a time, each at the node that the test names. */
import type { Claimed, WorkItem } from "../../../src/protocol/worker-wire.ts";
import type { ClusterBench, NodePlace } from "./cluster-bench.ts";

/** Starts an execution with one handler at the node that has it, and claims its only task there. */
export async function claimByHand(
  bench: ClusterBench,
  owner: NodePlace,
  { id, handler, use }: { readonly id: string; readonly handler: object; readonly use: string },
): Promise<WorkItem> {
  const flow = { rondo: 1, name: `flow-${id}`, phases: [{ name: "one", handlers: { one: handler } }] };
  await bench.insistAt(owner, "POST", "/v1/workflows", flow);
  await bench.insistAt(owner, "POST", "/v1/executions", { workflow: flow.name, input: null, id });
  const registration = { name: "by-hand", worker: "by-hand", handlers: [{ use }], capacity: 1 };
  await bench.insistAt(owner, "POST", "/v1/workers", registration);
  const asked = { max: 1, waitMs: 10_000 };
  const { work } = (await bench.insistAt(owner, "POST", "/v1/workers/by-hand/claim", asked)) as Claimed;
  return work[0] as WorkItem;
}

/** Sends the status or log lines of an attempt to a node, once. */
export async function sayByHand(
  place: NodePlace,
  { attempt, token }: Pick<WorkItem, "attempt" | "token">,
  what: "status" | "logs",
  body: unknown,
): Promise<readonly [number, unknown]> {
  const answer = await fetch(`${place.url}/v1/attempts/${encodeURIComponent(attempt)}/${what}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return [answer.status, await answer.json()];
}
