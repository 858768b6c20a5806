/** Connects to the server of the data directory. If no server runs, this process acts as one until the command ends. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  directoryOf,
  NoServer,
  readConfig,
  type Server,
  type ServerFlags,
  withServer,
} from "./find-server.ts";

const DATABASE = "rondo.db";

export interface DirectoryUse {
  /** Whether to create a store in a directory that has none. */
  readonly mayCreate: boolean;
}

/** Runs `use` with the server. If no server runs, this process opens one that listens only on the directory's socket. */
export async function withServerOrDirectory<T>(
  flags: ServerFlags,
  { mayCreate }: DirectoryUse,
  use: (server: Server, isHere: boolean) => Promise<T>,
): Promise<T> {
  try {
    return await withServer(flags, (server) => use(server, false));
  } catch (thrown) {
    if (!(thrown instanceof NoServer)) throw thrown;
    const loaded = await readConfig({ ...flags });
    const directory = directoryOf(loaded.config.store);
    if (directory === null || !(mayCreate || existsSync(join(directory, DATABASE)))) throw thrown;
    const [{ openServer }, { serverOptions }] = await Promise.all([
      import("../../compose/compose-server.ts"),
      import("../start/serve.ts"),
    ]);
    const own = await openServer({
      ...serverOptions(loaded),
      host: "127.0.0.1",
      port: null,
      adminToken: null,
    });
    try {
      return await withServer(flags, (server) => use(server, true));
    } finally {
      await own.close();
    }
  }
}
