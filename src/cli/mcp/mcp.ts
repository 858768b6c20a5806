/** `rondo mcp`: a server of the Model Context Protocol on stdin and stdout, which uses the HTTP API of a Rondo server. */
import { createInterface } from "node:readline";
import { errorOf, RPC_CODE, type RpcAnswer, RpcError } from "../../mcp/json-rpc.ts";
import { answerMcp } from "../../mcp/mcp-server.ts";
import { readManifest } from "../../package-root.ts";
import { isObject } from "../../std/decode.ts";
import { toError } from "../../std/to-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLine } from "../output/print.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

/** Answers messages until the client closes its end. Each line is a message, and each answer is a line. */
export async function mcp(flags: ServerFlags): Promise<ExitCode> {
  return withServer(flags, async ({ rondo, name }) => {
    // The MCP client reads stdout, so messages for people go to stderr.
    printLine(`rondo mcp serves the workflows of ${name} to the program that has started it`);
    const { version } = readManifest();
    const open = new Set<Promise<void>>();
    const answerLine = async (line: string): Promise<void> => {
      const message = parsed(line);
      const answer = message instanceof RpcError ? errorOf(null, message) : await answerOr(message);
      if (answer !== null) process.stdout.write(`${JSON.stringify(answer)}\n`);
    };
    // A bug in one answer must not end the connection, because the client waits for other answers on it.
    const answerOr = (message: unknown): Promise<RpcAnswer | null> =>
      answerMcp(message, { api: rondo.requester, version }).catch((thrown: unknown) => {
        const error = toError(thrown);
        printLine(`rondo mcp failed to answer a message: ${error.stack ?? error.message}`);
        return errorOf(idOf(message), new RpcError(RPC_CODE.internal, error.message));
      });
    // Messages are answered concurrently, because one of them may wait for the end of an execution.
    for await (const line of createInterface({ input: process.stdin })) {
      if (line.trim() === "") continue;
      const answering = answerLine(line).finally(() => open.delete(answering));
      open.add(answering);
    }
    await Promise.all(open);
    return EXIT.ok;
  });
}

/** Parses a line. Returns the message, or the error to answer if the line is not JSON. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return new RpcError(RPC_CODE.notJson, "the line is not JSON");
  }
}

function idOf(message: unknown): string | number | null {
  const id = isObject(message) ? message["id"] : null;
  return typeof id === "string" || typeof id === "number" ? id : null;
}
