/** The ring: the nodes of the cluster as this one sees them. A single server is a ring of one. */
import { json } from "../route.ts";
import { ringSchema } from "../schemas/node.ts";
import { routesOf, type Services } from "./services.ts";

/** The ring of a single server: its only node owns all partitions, and no token circulates. */
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

export const ringRoute = routesOf("node")({
  id: "getRing",
  request: "GET /v1/ring",
  summary: "Get the ring: the nodes of the cluster, their partitions and who watches their timers",
  access: "viewer",
  isGlobal: true,
  answers: { 200: { description: "the ring as this node sees it", schema: ringSchema } },
  handle(_ask, services) {
    const view = services.ring?.() ?? ringOfOne(services);
    const token = services.tokenSightings.lastSeen(view.ring.token);
    const { status, incarnation, owned, yielding, places, owners } = view.ownership;
    const ownership = { status, incarnation, owned, yielding, places, owners };
    return json({ ...view.ring, token, ownership });
  },
});
