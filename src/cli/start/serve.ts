/** Opens a server by the configuration: what `start` and `dev` have in common. */
import { openServer, type ServerOptions } from "../../compose-server.ts";
import { type LoadedConfig, showOrigin } from "../../config/load-config.ts";
import { SETTINGS, type SettingName } from "../../config/settings.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { printJson, tell } from "../output/print.ts";

/** Flags of the verbs that serve. */
export interface StartFlags {
  readonly store?: string;
  readonly host?: string;
  readonly port?: string;
  readonly broker?: string;
  /** Print where it listens as JSON. */
  readonly json?: boolean;
}

export interface RunningServer {
  readonly url: string;
  /** The directory's socket; null if the store has no directory. */
  readonly socket: string | null;
  close(): Promise<void>;
}

/** Opens it, and tells where it is: the address is the first line of stdout, or all of it as JSON. */
export async function serve(loaded: LoadedConfig, options: StartFlags): Promise<RunningServer> {
  const { config } = loaded;
  if (config.broker !== null)
    throw new CliError(EXIT.usage, `this version does not work with a broker (${config.broker})`, [
      "leave --broker, RONDO_BROKER and `broker` in the configuration away",
    ]);
  const server = await openServer(serverOptions(loaded));
  const { url, socket } = server;
  if (options.json) printJson({ url, socket });
  else {
    process.stdout.write(`${url}\n`);
    tell(`rondo serves ${config.store} at ${url}${socket === null ? "" : `, and through ${socket}`}`);
  }
  return server;
}

function serverOptions({ config, origins }: LoadedConfig): ServerOptions {
  const shown = (Object.keys(SETTINGS) as SettingName[]).map((name) => ({
    name,
    value: config[name],
    origin: showOrigin(origins[name]),
    isSecret: (SETTINGS[name] as { isSecret?: boolean }).isSecret === true,
  }));
  return {
    store: config.store,
    host: config.host,
    port: config.port,
    advertise: config.advertise,
    hosts: config.hosts,
    adminToken: config.adminToken,
    limits: config.limits,
    heartbeatMs: config.heartbeat,
    retentionMs: config.retention,
    settings: { projects: config.projects, claimLeaseMs: config.claimLease, sweepMs: config.sweep },
    shown,
    onFault: (fault) => tell(`rondo: ${fault.message}`),
  };
}
