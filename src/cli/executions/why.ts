/** `rondo why ID`: what it waits for, in one sentence. */
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

/** Prints the sentence. */
export async function why(id: string, options: ServerFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    const sentence = await rondo.execution(id).why();
    if (options.json) printJson({ id, why: sentence });
    else print(sentence);
    return EXIT.ok;
  });
}
