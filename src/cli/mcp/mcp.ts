/** `rondo mcp`: a server of the Model Context Protocol on stdin and stdout, over the HTTP API of a server. */
import { createInterface } from "node:readline";
import { answerMcp } from "../../mcp/mcp-server.ts";
import { readManifest } from "../../package-root.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLine } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

/** Answers messages until the client closes its end. Each line is a message, and each answer is a line. */
export async function mcp(flags: ServerFlags): Promise<ExitCode> {
  return withServer(flags, async ({ rondo, name }) => {
    // The client reads stdout, so notes go to stderr.
    printLine(`rondo mcp serves the workflows of ${name} to the program that has started it`);
    const { version } = readManifest();
    const open = new Set<Promise<void>>();
    const answerLine = async (line: string): Promise<void> => {
      const answer = await answerMcp(parsed(line), { api: rondo.requester, version });
      if (answer !== null) process.stdout.write(`${JSON.stringify(answer)}\n`);
    };
    // Messages are answered side by side: one may wait for the end of an execution.
    for await (const line of createInterface({ input: process.stdin })) {
      if (line.trim() === "") continue;
      const answering = answerLine(line).finally(() => open.delete(answering));
      open.add(answering);
    }
    await Promise.all(open);
    return EXIT.ok;
  });
}

/** The message of a line. A line that is not JSON is answered like a message that is not JSON-RPC. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return null;
  }
}
