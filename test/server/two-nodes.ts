// Two nodes over one store in memory, each with its whole API on a free port. Time stands still unless the test moves it;
// requests, also those between the nodes, are real.
import { onTestFinished } from "vitest";
import { RingNode } from "../../src/cluster/ring/ring-node.ts";
import { TopicGuard } from "../../src/commands/topic-guard.ts";
import { TopicRegistry } from "../../src/commands/topic-registry.ts";
import { TopicRules } from "../../src/kernel/command/topic-rules.ts";
import { LocalRondo } from "../../src/rondo/local-rondo.ts";
import { Metrics } from "../../src/server/metrics.ts";
import type { NodeFacts, OtherNodes } from "../../src/server/other-nodes.ts";
import { type ServeParts, serveApi } from "../../src/server/serve.ts";
import { withVersionLog } from "../../src/server/services/version-log.ts";
import { PARTITIONS, type PeerNode, PeerWorld } from "../cluster/peers/peer-world.ts";
import { Api, textOf } from "./api-bench.ts";

export interface ApiNode {
  readonly api: Api;
  readonly node: PeerNode;
  /** Its place in the ring, which nobody turns. */
  readonly ring: RingNode;
}

export interface TwoNodes {
  readonly world: PeerWorld;
  readonly a: Api;
  readonly b: Api;
  readonly nodes: readonly [ApiNode, ApiNode];
}

/** The nodes: the first has the even partitions, the second the odd ones. */
export async function twoNodes(): Promise<TwoNodes> {
  const world = new PeerWorld();
  const nodes: ApiNode[] = [];
  for (const name of ["a", "b"]) nodes.push(await openNode(world, name));
  const [first, second] = nodes as [ApiNode, ApiNode];
  const all = Array.from({ length: PARTITIONS }, (_, partition) => partition);
  await first.node.take(...all.filter((partition) => partition % 2 === 0));
  await second.node.take(...all.filter((partition) => partition % 2 === 1));
  for (const { node, ring } of nodes) {
    await node.renew();
    ring.input({ kind: "members", membership: await node.store.renew() }, world.clock.now());
  }
  return { world, a: first.api, b: second.api, nodes: [first, second] };
}

/** Makes a token at the first node, an admin's; both are asked with it from then on. */
export async function withAdmin({ world, a, b }: TwoNodes): Promise<string> {
  await b.document();
  const token = await a.makeToken("admin");
  await world.clock.advance("3s");
  a.token = token;
  b.token = token;
  return token;
}

/** Makes a token at a node. */
export async function tokenAt(api: Api, role = "viewer"): Promise<{ id: string; token: string }> {
  const { body } = await api.post("/v1/tokens", { name: role, role });
  return { id: textOf(body["id"]), token: textOf(body["token"]) };
}

async function openNode(world: PeerWorld, name: string): Promise<ApiNode> {
  const answers: Parameters<OtherNodes["serve"]>[0][] = [];
  const overview = (question: unknown): unknown => answers[0]?.(question);
  const node = await world.node(name, { hooks: { overview } });
  const faults: Error[] = [];
  const onFault = (fault: Error): void => void faults.push(fault);
  const { clock } = world;
  const random = world.random.child(`api ${name}`);
  const shared = { engine: node.cluster, store: withVersionLog(node.store, clock), clock, random };
  const rondo = new LocalRondo({ ...shared, capacity: 10, onLog: () => {}, onBug: () => {} });
  const ring = new RingNode(node.url, clock.now());
  const server = await serveApi({
    ...shared,
    rondo,
    topics: new TopicGuard({
      rules: new TopicRules({ prefix: "rondo", projects: {} }),
      registry: new TopicRegistry(node.store),
      refusesReceipts: async () => null,
    }),
    postOps: { readState: async () => null, refusalOf: async () => null },
    metrics: new Metrics(),
    config: {
      host: "127.0.0.1",
      port: 0,
      directory: null,
      advertise: null,
      hosts: [],
      adminToken: null,
      limits: {},
      version: "0.0.0",
      settings: [],
      pages: null,
    },
    otherNodes: {
      serve: (answer) => void answers.push(answer),
      atOwner: (execution, passed) => node.cluster.atOwner(execution, passed),
      ask: (question) =>
        Promise.all(
          node.owners.peers.map(async ({ url }) => {
            const answer = await node.client.call<NodeFacts>(url, "overview", question);
            return { url, facts: answer.kind === "answered" ? answer.value : null };
          }),
        ),
    },
    ring: () => ({ ring: ring.view(), ownership: ownershipOf(node) }),
    heartbeatMs: 30_000,
    leaseMs: 30_000,
    retentionMs: 0,
    onFault,
  } satisfies ServeParts);
  const api = new Api(server, faults);
  onTestFinished(async () => {
    const closed = api.close();
    await world.passing(closed);
  });
  return { api, node, ring };
}

function ownershipOf({ owners, url }: PeerNode) {
  const urls = Array.from({ length: PARTITIONS }, (_, partition) => {
    const owner = owners.ownerAt(partition);
    return owner.kind === "me" ? url : owner.kind === "peer" ? owner.url : null;
  });
  const owned = urls.flatMap((owner, partition) => (owner === url ? [{ partition, epoch: 1 }] : []));
  const places = urls.map((owner) => owner ?? url);
  return { status: "member", incarnation: "me", owned, yielding: [], places, owners: urls } as const;
}
