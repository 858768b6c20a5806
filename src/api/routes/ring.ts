/** The ring: the nodes of the cluster as this one sees them. A server that is alone is a ring of one. */
import { z } from "@hono/zod-openapi";
import type { RingView } from "../../ring/io.ts";
import { json, type Route, route } from "../route.ts";
import { time } from "../schemas/paging.ts";
import type { Desk } from "./desk.ts";

const count = z.number().int().nonnegative();
const ms = z.number().nullable();

const nodeSchema = z.looseObject({
  url: z.string(),
  incarnation: z.string().openapi({ description: "names one membership of this node" }),
  partitions: count.openapi({ description: "how many it has" }),
  hash: z.string().nullable().openapi({ description: "of its map, as it was last heard" }),
  agrees: z.boolean().openapi({ description: "its map is the same as here" }),
  suspect: z.boolean().openapi({ description: "it did not answer" }),
  leaseUntil: time.nullable().openapi({ description: "when it is no member any more if it does not renew" }),
  clockworkers: z.array(z.string()).openapi({ description: "who watches its timers" }),
});

const ownershipSchema = z.looseObject({
  status: z.enum(["joining", "member", "leaving", "left"]),
  incarnation: z.string().nullable(),
  owned: z.array(z.object({ partition: count, epoch: count })).openapi({ description: "what this node has" }),
  yielding: z.array(count).openapi({ description: "of these, those that are being handed over" }),
  places: z.array(z.string()).openapi({ description: "where each partition belongs" }),
  owners: z.array(z.string().nullable()).openapi({ description: "who has each partition" }),
});

const ringSchema = z
  .looseObject({
    url: z.string().openapi({ description: "this node" }),
    hash: z.string().openapi({ description: "of the map as it is here" }),
    nodes: z.array(nodeSchema).openapi({ description: "in the order of the ring" }),
    token: z
      .looseObject({
        epoch: count,
        number: count,
        maker: z.string(),
        members: z.array(z.string()),
        at: z.string().openapi({ description: "who has it, as far as any node knows" }),
        seenAt: time,
      })
      .nullable(),
    cycle: z.looseObject({ count, lastMs: ms, averageMs: ms }),
    made: count.openapi({ description: "tokens that were made anew here" }),
    dropped: count.openapi({ description: "tokens that came and were old" }),
    queued: z.looseObject({ hints: count, timers: count }),
    carried: z.looseObject({ hints: count, timers: count }),
    watch: z.looseObject({
      executors: z.array(z.string()).openapi({ description: "whose timers are watched here" }),
      partitions: count,
      timers: count,
      lateness: z.looseObject({ count, lastMs: z.number(), maxMs: z.number() }),
    }),
    deaths: z.array(z.looseObject({ at: time })).openapi({ description: "nodes that did not answer" }),
    ownership: ownershipSchema,
  })
  .openapi("Ring");

/** The route. */
export function ringRoute(desk: Desk): Route {
  return route(
    {
      id: "getRing",
      method: "get",
      path: "/v1/ring",
      tag: "node",
      summary: "The nodes of the cluster in their order, who has and who watches what",
      access: "viewer",
      isGlobal: true,
      answers: { 200: { description: "as this node sees it", schema: ringSchema } },
    },
    async () => {
      const view = desk.ring?.() ?? ringOfOne(desk);
      const token = await newestToken(desk, view.ring.token);
      const { status, incarnation, owned, yielding, places, owners } = view.ownership;
      const ownership = { status, incarnation, owned, yielding, places, owners };
      return json({ ...view.ring, token, ownership });
    },
  );
}

type TokenShown = RingView["token"];

/** A node knows of the token when it has it and to whom it gave it; whoever saw it last knows where it is. */
async function newestToken({ allNodes }: Desk, own: TokenShown): Promise<TokenShown> {
  if (own === null) return null;
  const { nodes } = await allNodes.ask({ token: true });
  return nodes.reduce((newest, { token = null }) => {
    if (token === null) return newest;
    const isNewer = token.epoch === newest.epoch ? token.number > newest.number : token.epoch > newest.epoch;
    return isNewer ? token : newest;
  }, own);
}

/** A node without others has everything, and nothing goes round. */
function ringOfOne({ engine, url: own, config }: Desk): ReturnType<NonNullable<Desk["ring"]>> {
  const url = config.advertise ?? own();
  const { generation, partitions } = engine.info;
  const owned = engine.info.owned.map(({ partition, epoch }) => ({ partition, epoch }));
  const urls = Array.from({ length: partitions }, () => url);
  return {
    ring: {
      url,
      hash: "",
      nodes: [
        {
          url,
          incarnation: generation,
          partitions,
          hash: "",
          agrees: true,
          suspect: false,
          leaseUntil: null,
          clockworkers: [url],
        },
      ],
      token: null,
      cycle: { count: 0, lastMs: null, averageMs: null },
      made: 0,
      dropped: 0,
      queued: { hints: 0, timers: 0 },
      carried: { hints: 0, timers: 0 },
      watch: {
        executors: [],
        partitions: 0,
        timers: 0,
        lateness: { count: 0, lastMs: 0, maxMs: 0 },
      },
      deaths: [],
    },
    ownership: {
      status: "member",
      incarnation: generation,
      owned,
      yielding: [],
      places: urls,
      owners: urls,
    },
  };
}
