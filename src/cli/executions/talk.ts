/** `rondo update ID NAME`, `rondo stream ID NAME` and `rondo published ID`: these verbs exchange data with a running execution. */
import { defined } from "../../std/defined.ts";
import type { Duration } from "../../std/duration.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { readInput } from "../read-input.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { interruptible } from "../server/interruptible.ts";

export type UpdateFlags = ServerFlags & Flags<"data" | "id" | "timeout">;

/** Sends an update and prints its answer as JSON. */
export async function update(id: string, name: string, options: UpdateFlags): Promise<void> {
  const data = options.data === undefined ? null : await readInput(options.data, printLine, "-d");
  const timeout = (options.timeout ?? "30s") as Duration;
  return withServer(options, async ({ rondo }) => {
    const sent = rondo.execution(id).update(name, data, { timeout, ...defined({ id: options.id }) });
    printJson(await sent);
  });
}

export type StreamFlags = ServerFlags & Flags<never, "follow">;

/** Prints the chunks of a stream. A chunk that is a string is printed unchanged, any other chunk as a line of JSON. */
export async function stream(id: string, name: string, options: StreamFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    const handle = rondo.execution(id);
    await handle.describe();
    if (options.follow !== true) {
      for (const chunk of await handle.stream(name).chunks()) print(chunk, options);
      if (options.json !== true) printLine("");
      return EXIT.ok;
    }
    return interruptible(handle, async () => {
      for await (const piece of handle.stream(name))
        if (options.json === true) printJson(piece);
        else for (const chunk of piece.chunks) print(chunk, options);
      if (options.json !== true) printLine("");
    });
  });
}

/** Prints the values that an execution has published, as JSON. */
export async function published(id: string, options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => printJson(await rondo.execution(id).published()));
}

function print(chunk: unknown, { json }: StreamFlags): void {
  if (json === true || typeof chunk !== "string") printJson(chunk);
  else process.stdout.write(chunk);
}
