/** `rondo why ID`: explains in one sentence what an execution waits for. */
import { print, printJson } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";
import { whyChain } from "./why-chain.ts";

/** Prints the explanation. */
export async function why(id: string, options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const sentence = await whyChain(id, (each) => rondo.execution(each).why());
    if (options.json) printJson({ id, why: sentence });
    else print(sentence);
  });
}
