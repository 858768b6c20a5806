/** The ring: the nodes of the cluster as this one sees them. A server that is alone is a ring of one. */
import { z } from "@hono/zod-openapi";
import type { RingView } from "../../cluster/ring/io.ts";
import { json, type Route, route } from "../route.ts";
import { time } from "../schemas/paging.ts";
import type { Services } from "./services.ts";

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
export function ringRoute(services: Services): Route {
  const sightings = new TokenSightings(services.allNodes);
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
    () => {
      const view = services.ring?.() ?? ringOfOne(services);
      const token = sightings.look(view.ring.token);
      const { status, incarnation, owned, yielding, places, owners } = view.ownership;
      const ownership = { status, incarnation, owned, yielding, places, owners };
      return json({ ...view.ring, token, ownership });
    },
  );
}

type TokenShown = RingView["token"];

/**
 * Where the token is: a node knows of it when it has it and to whom it gave it, so whoever saw it last knows. The others are
 * asked meanwhile, and what they say counts from the next look on: nobody waits for a node that does not answer.
 */
class TokenSightings {
  readonly #allNodes: Pick<Services["allNodes"], "ask">;
  #newest: TokenShown = null;
  #isAsking = false;

  constructor(allNodes: Pick<Services["allNodes"], "ask">) {
    this.#allNodes = allNodes;
  }

  look(own: TokenShown): TokenShown {
    if (own === null) return null;
    this.#note(own);
    if (!this.#isAsking) {
      this.#isAsking = true;
      void this.#ask();
    }
    return this.#newest;
  }

  async #ask(): Promise<void> {
    // It does not throw: nodes that do not answer are left out.
    const { nodes } = await this.#allNodes.ask({ token: true });
    for (const { token = null } of nodes) this.#note(token);
    this.#isAsking = false;
  }

  #note(token: TokenShown): void {
    const known = this.#newest;
    if (token === null) return;
    const isOlder =
      known !== null &&
      (token.epoch === known.epoch ? token.number < known.number : token.epoch < known.epoch);
    if (!isOlder) this.#newest = token;
  }
}

/** A node without others has everything, and nothing goes round. */
function ringOfOne({ engine, url: own, config }: Services): ReturnType<NonNullable<Services["ring"]>> {
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
