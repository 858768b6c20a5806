/** `rondo openapi`: the server's own description of its API. */
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

/** Prints the document: indented for people, on one line with --json. */
export async function openapi(options: ServerFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    const document = await rondo.requester.json<unknown>("/openapi.json");
    if (options.json) printJson(document);
    else print(JSON.stringify(document, null, 2));
    return EXIT.ok;
  });
}
