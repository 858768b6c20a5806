/** `rondo backup FILE`: the server copies the whole store to a file while it goes on working. */
import { resolve } from "node:path";
import { printJson, printLine } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

/** Asks the server to write the copy. */
export async function backup(file: string, options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo, name }) => {
    const answer = await rondo.requester.json<unknown>("/v1/backup", {
      method: "POST",
      body: { file: resolve(file) },
    });
    if (options.json) printJson(answer ?? { file });
    else printLine(`${name} was copied to ${file}; \`rondo restore ${file}\` makes a store of the copy`);
  });
}
