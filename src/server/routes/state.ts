/** Routes for the values that commands have saved in state stores. */
import { z } from "@hono/zod-openapi";
import { isRejection, reject } from "../../std/rejection.ts";
import { seesProject } from "../auth/caller.ts";
import { json } from "../route.ts";
import { anyJson, time } from "../schemas/paging.ts";
import { routesOf } from "./services.ts";

const KEY_CHARS_MAX = 500;

const stateSchema = z
  .object({
    store: z.string(),
    key: z.string(),
    partition: z.string().nullable(),
    value: anyJson.describe("the result, enriched"),
    project: z
      .string()
      .nullable()
      .describe("the project that the value belongs to; null if Rondo did not write the value"),
    execution: z.string().nullable().describe("the execution that wrote the value"),
    seq: z.number().int().nullable().describe("the sequence number of the event of the command's receipt"),
    at: time.nullable().describe("when the receipt came"),
  })
  .openapi("State", {
    example: {
      store: "statestore-discovery",
      key: "project-x",
      partition: "project-x",
      value: { files: 12 },
      project: "project-x",
      execution: "ex_01jc0000000000000000000000",
      seq: 7,
      at: 1_794_700_800_000,
    },
  });

export const stateRoute = routesOf("state")({
  id: "getState",
  request: "GET /v1/state/{store}/{key}",
  summary: "Get a value that a command saved in a state store",
  description:
    "Returns the newest value under the key. A caller that is bound to a project sees only values of its project.",
  access: "viewer",
  params: z.strictObject({
    store: z.string().min(1).max(100),
    key: z.string().min(1).max(KEY_CHARS_MAX),
  }),
  query: z.strictObject({
    partition: z.string().max(KEY_CHARS_MAX).optional().describe("none by default"),
  }),
  answers: { 200: { description: "the value", schema: stateSchema } },
  refusals: ["not_found", "store_unavailable"],
  async handle({ params: { store, key }, query: { partition = "" }, caller }, { postOps }) {
    const place = { store, key, partition: partition === "" ? null : partition };
    const found = await postOps.readState(place);
    if (isRejection(found)) return found;
    if (found === null || !seesProject(caller, found.project ?? ""))
      return reject("not_found", `there is no "${key}" in the state store "${store}"`, {
        hint:
          place.partition === null
            ? "if the value was stored under a partition, add ?partition="
            : "if the value was stored without this partition, leave out ?partition=",
      });
    const { value, project, version } = found;
    const { execution = null, seq = null, at = null } = version ?? {};
    return json({ ...place, value: JSON.parse(value) as unknown, project, execution, seq, at });
  },
});
