/** `rondo dev FILES`: a server, and a worker beside it that always has the newest version of the files. */
import { relative } from "node:path";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { isFileName } from "../load/load-file.ts";
import { printLine } from "../output/print.ts";
import { readConfig } from "../server/find-server.ts";
import { type StartFlags, serve } from "../start/serve.ts";
import { Shutdown } from "../start/shutdown.ts";
import { FileWatch } from "./file-watch.ts";
import { importGraph } from "./import-graph.ts";
import { WorkerKeeper } from "./worker-keeper.ts";

/** Serves until it is told to end. */
export async function dev(files: readonly string[], options: StartFlags): Promise<ExitCode> {
  const loaded = await readConfig({ ...options, files });
  const wanted = loaded.config.files;
  if (wanted.length === 0)
    throw new CliError(EXIT.usage, "rondo dev needs files with workflows", [
      "rondo dev flows.ts, or files: [...] in rondo.config.ts",
    ]);
  for (const file of wanted)
    if (!isFileName(file)) throw new CliError(EXIT.usage, `${file} is not the name of a file with workflows`);
  const shutdown = new Shutdown();
  const server = await serve(loaded, options);
  const address = server.socket === null ? ["--url", server.url] : ["--store", loaded.config.store];
  const keeper = new WorkerKeeper({ files: wanted, args: address });
  const watch = new FileWatch((changed) => {
    printLine(`rondo dev: ${changed.map((file) => relative(process.cwd(), file)).join(", ")} changed`);
    watch.follow(importGraph(wanted));
    void keeper.replace();
  });
  process.once("exit", () => keeper.kill());
  try {
    watch.follow(importGraph(wanted));
    void keeper.replace();
    await shutdown.asked;
    printLine("closing: what runs may end; once more leaves at once");
    watch.close();
    await keeper.close();
    await server.close();
    return EXIT.ok;
  } finally {
    shutdown.stop();
  }
}
