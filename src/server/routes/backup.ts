/** The route that writes a copy of the whole store to the server's own disk. */
import { isAbsolute } from "node:path";
import { z } from "@hono/zod-openapi";
import { reject } from "../../std/rejection.ts";
import { json } from "../route.ts";
import { routesOf } from "./services.ts";

export const backupRoute = routesOf("admin")({
  id: "makeBackup",
  request: "POST /v1/backup",
  summary: "Write a copy of the whole store to a file of the server's machine",
  description:
    "The copy is consistent, and durable when the request is answered. No existing file is overwritten. The request is accepted only through the socket in the data directory, whose users have access to the store's files anyway.",
  access: "admin",
  isGlobal: true,
  body: z.strictObject({
    file: z
      .string()
      .min(1)
      .max(4_096)
      .openapi({ description: "an absolute path", example: "/backups/monday.db" }),
  }),
  timeMs: null,
  answers: { 200: { description: "it is written", schema: z.object({ file: z.string() }) } },
  refusals: ["conflict"],
  audit: "backup.make",
  async handle(ask, { backup }) {
    const { caller } = ask;
    const { file } = ask.body;
    if (caller.token !== null || caller.countedBy !== null)
      return reject("forbidden", "a backup can be requested only through the socket in the data directory", {
        hint: "run `rondo backup` on the server's machine, without --url",
      });
    if (backup === undefined) return reject("wrong_status", "this store cannot be copied to a file");
    if (!isAbsolute(file)) return reject("invalid_input", "file: must be an absolute path", { path: "file" });
    await backup(file);
    ask.target(file);
    return json({ file });
  },
});
