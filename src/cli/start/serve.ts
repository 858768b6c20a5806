/** Opens a server with the options of the configuration. `rondo start` and `rondo dev` use it. */
import { networkInterfaces } from "node:os";
import { openServer, type ServerOptions } from "../../compose/compose-server.ts";
import { type LoadedConfig, showOrigin } from "../../config/load-config.ts";
import { type Config, SETTINGS, type SettingName } from "../../config/settings.ts";
import { isLoopback } from "../../net/hosts.ts";
import { defined } from "../../std/defined.ts";
import { hidePasswords, withoutPassword } from "../../std/hide-passwords.ts";
import { RondoError } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { print, printJson, printLine } from "../output/print.ts";
import { directoryRisk } from "../server/directory-risk.ts";
import type { Flags } from "../server/find-server.ts";

export type StartFlags = Flags<"store" | "host" | "port" | "broker", "json">;

export interface RunningServer {
  readonly url: string;
  /** The path of the directory's socket; null if the store has no directory. */
  readonly socket: string | null;
  close(): Promise<void>;
}

/** Opens the server. Prints its address as the first line of stdout or, with --json, all addresses. */
export async function serve(loaded: LoadedConfig, options: StartFlags): Promise<RunningServer> {
  const { config } = loaded;
  const risk = directoryRisk(config.store);
  if (risk !== null) printLine(`rondo: ${risk.what}: ${risk.mend}`);
  const server = await open(loaded);
  const { socket } = server;
  const url = reachedAt(server.url, config);
  if (options.json) printJson({ url, socket });
  // On a terminal the address is not printed here, because the next line shows it.
  else if (!(process.stdout.isTTY && process.stderr.isTTY)) print(url);
  if (options.json) return server;
  const where = isAnyAddress(config.host) ? `${url}, on all addresses of this machine` : url;
  printLine(
    `rondo serves ${withoutPassword(config.store)} at ${where}${socket === null ? "" : `, and through ${socket}`}`,
  );
  if (!isLoopback(config.host))
    printLine(
      `  the server answers to the names ${namesOf(config).join(", ")}; add other names to the setting "hosts"`,
    );
  return server;
}

async function open(loaded: LoadedConfig): Promise<RunningServer> {
  const { host, store } = loaded.config;
  try {
    return await openServer(serverOptions(loaded));
  } catch (thrown) {
    if (!(thrown instanceof RondoError) || thrown.path !== "host" || thrown.code !== "forbidden")
      throw thrown;
    const at = store === "file:.rondo" ? "" : ` --store ${store}`;
    throw new CliError(
      EXIT.unauthorised,
      `the server would listen on ${host} without a token, so every client could use it`,
      [
        `1. make a token, which needs no server:  rondo token create --role admin${at}`,
        `2. start again:                          rondo start --host ${host}${at}`,
        "3. give the token to its users:          --token, or RONDO_TOKEN",
        "or set RONDO_ADMIN_TOKEN for the server; to make a secret: openssl rand -hex 32",
      ],
      { cause: thrown },
    );
  }
}

/** Returns the address for other machines: the advertised one, or the machine's first address if the server listens on all. */
function reachedAt(url: string, { advertise, host }: Config): string {
  if (advertise !== null) return advertise;
  const own = isAnyAddress(host) ? ownAddresses()[0] : undefined;
  return own === undefined || !URL.canParse(url) ? url : `http://${own}:${new URL(url).port}`;
}

function namesOf({ advertise, host, hosts }: Config): string[] {
  const own = isAnyAddress(host) ? ownAddresses() : [host];
  const advertised = advertise === null ? [] : [new URL(advertise).hostname];
  return [...new Set(["localhost", ...own, ...advertised, ...hosts])];
}

function isAnyAddress(host: string): boolean {
  return host === "0.0.0.0" || host === "::" || host === "[::]";
}

/** The machine's external IPv4 addresses. */
function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address);
}

function ringSettings({
  clockworkers,
  idleCycle,
  busyCycle,
  grace,
}: Config["ring"]): NonNullable<ServerOptions["ring"]> {
  return defined({ clockworkers, idleCycleMs: idleCycle, busyCycleMs: busyCycle, graceMs: grace });
}

/** Converts the configuration to options of the server. */
export function serverOptions({ config, origins }: LoadedConfig): ServerOptions {
  const shown = (Object.keys(SETTINGS) as SettingName[]).map((name) => ({
    name,
    value: hidePasswords(config[name]),
    origin: showOrigin(origins[name]),
    isSecret: (SETTINGS[name] as { isSecret?: boolean }).isSecret === true,
  }));
  return {
    store: config.store,
    broker: config.broker,
    prefix: config.prefix,
    receiptTopics: config.receiptTopics,
    brokerRequests: config.brokerRequests,
    webhooks: config.webhooks,
    brokerSettings: { silenceMs: config.brokerSilence, shortMessages: config.shortMessages },
    host: config.host,
    port: config.port,
    advertise: config.advertise,
    hosts: config.hosts,
    cors: config.cors,
    adminToken: config.adminToken,
    secret: config.secret,
    limits: config.limits,
    stateStores: config.stateStores,
    allowTargets: config.allowTargets,
    webhookSecrets: config.webhookSecrets,
    leaseMs: config.lease,
    ring: ringSettings(config.ring),
    heartbeatMs: config.heartbeat,
    retentionMs: config.retention,
    eventsKeptMs: config.eventsKept,
    projects: config.projects,
    alerts: config.alerts,
    settings: { claimLeaseMs: config.claimLease, sweepMs: config.sweep, turnMessages: config.turnMessages },
    shown,
    onFaultLine: (line) => printLine(`rondo: ${line}`),
  };
}
