/** `rondo doctor`: shows every setting with its origin and checks that Rondo can work on this machine. It changes nothing. */
import { existsSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type LoadedConfig, showOrigin } from "../../config/load-config.ts";
import { type Config, SETTINGS, type SettingName } from "../../config/settings.ts";
import { readManifest } from "../../package-root.ts";
import { showDuration } from "../../std/duration.ts";
import { hidePasswords, withoutPassword } from "../../std/hide-passwords.ts";
import { RondoError, unwrap } from "../../std/rejection.ts";
import { toCliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printPainted } from "../output/print.ts";
import { tableLines } from "../output/table.ts";
import { directoryRisk } from "../server/directory-risk.ts";
import { directoryOf, type Flags, readConfig, type ServerFlags, withServer } from "../server/find-server.ts";
import { isColoured, Painter, type Style } from "../style.ts";

export type DoctorOptions = ServerFlags & Flags<"host" | "port" | "broker">;

interface Finding {
  readonly what: string;
  /** The verdict of a check. `note` means a restriction, or something missing that may be missing on purpose. */
  readonly verdict: "ok" | "note" | "wrong";
  readonly says: string;
}

/** Runs all checks. The exit code is 1 if something is wrong. */
export async function doctor(options: DoctorOptions): Promise<ExitCode> {
  const loaded = await readConfig({ ...options });
  const findings: Finding[] = [
    runtime(),
    await store(loaded),
    ...(await checkStateStores(loaded.config)),
    ...(await broker(loaded)),
    ...(await server(loaded, options)),
    ...corsOf(loaded.config),
    await sandbox(),
  ];
  const settings = (Object.keys(SETTINGS) as SettingName[]).map((name) => ({
    name,
    value: shownValue(name, loaded),
    origin: showOrigin(loaded.origins[name]),
  }));
  if (options.json) printJson({ version: readManifest().version, settings, findings });
  else {
    const painter = new Painter(isColoured(process.stdout));
    for (const { what, verdict, says } of findings)
      printPainted(painter.line([MARKS[verdict], ` ${what.padEnd(10)} `, says]));
    const columns = [
      { title: "SETTING", value: ({ name }: { name: string }) => name },
      { title: "VALUE", value: showValue },
      { title: "ORIGIN", value: ({ origin }: { origin: string }) => origin },
    ];
    printPainted("", ...tableLines(columns, settings, process.stdout));
  }
  return findings.some(({ verdict }) => verdict === "wrong") ? EXIT.failed : EXIT.ok;
}

const MARKS: Readonly<Record<Finding["verdict"], readonly [string, Style]>> = {
  ok: ["✓", "green"],
  note: ["–", "yellow"],
  wrong: ["✗", "red"],
};
const NODE_MIN = [20, 19] as const;
const DISK_LOW_BYTES = 1_073_741_824;

function runtime(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const fits = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1]);
  const says = `rondo ${readManifest().version}, node ${process.versions.node}, ${process.platform} ${process.arch}`;
  return {
    what: "runtime",
    verdict: fits ? "ok" : "wrong",
    says: fits ? says : `${says}: Rondo needs node ${NODE_MIN.join(".")} or newer`,
  };
}

async function store(loaded: LoadedConfig): Promise<Finding> {
  const { isDatabase } = await import("../../compose/compose-transfer.ts");
  return isDatabase(loaded.config.store) ? database(loaded) : directory(loaded);
}

/** Checks whether the database answers, what its schema contains, and how many nodes are alive. */
async function database({ config }: LoadedConfig): Promise<Finding> {
  const what = "store";
  const { readDatabaseFacts } = await import("../../compose/compose-transfer.ts");
  try {
    const { server, kind, version, nodes } = await readDatabaseFacts({ store: config.store });
    if (kind === "foreign")
      return {
        what,
        verdict: "wrong",
        says: "the schema of this database contains tables that are not Rondo's",
      };
    const content =
      kind === "absent"
        ? "the schema is empty: Rondo makes its store at the first use"
        : `schema version ${version}`;
    const live = nodes === 1 ? "1 node is alive" : `${nodes} nodes are alive`;
    return { what, verdict: "ok", says: `PostgreSQL ${server} answers; ${content}; ${live}` };
  } catch (thrown) {
    const { message, more } = toCliError(thrown);
    return { what, verdict: "wrong", says: [message, ...more.slice(0, 1)].join("; ") };
  }
}

/** Checks the connection to the broker, if one is configured. */
async function broker({ config }: LoadedConfig): Promise<Finding[]> {
  if (config.broker === null) return [];
  const what = "broker";
  const { checkBroker } = await import("../../net/amqp/check-broker.ts");
  const at = withoutPassword(config.broker);
  try {
    return [{ what, verdict: "ok", says: `${at} answers: ${await checkBroker(config.broker)}` }];
  } catch (thrown) {
    return [{ what, verdict: "wrong", says: thrown instanceof Error ? thrown.message : String(thrown) }];
  }
}

/** Checks whether the data directory can be written to, and how much space is free. */
async function directory({ config }: LoadedConfig): Promise<Finding> {
  const what = "store";
  const path = directoryOf(config.store);
  if (path === null)
    return {
      what,
      verdict: "note",
      says: `${config.store} is not a directory, so disk space is not checked`,
    };
  const near = existing(resolve(path));
  if (!statSync(near).isDirectory())
    return {
      what,
      verdict: "wrong",
      says: `${config.store} cannot be used: ${near} is a file, not a directory`,
    };
  const { lostTransactionsIn } = await import("../../compose/compose-transfer.ts");
  const lost = lostTransactionsIn(path);
  if (lost > 0) return { what, verdict: "wrong", says: `${config.store}: ${describeLost(lost)}` };
  const { bavail, bsize } = await statfs(near);
  const room = `${Math.round((bavail * bsize) / 1_048_576).toLocaleString("en")} MiB free`;
  const isLow = bavail * bsize < DISK_LOW_BYTES;
  const exists = existsSync(path) ? "exists" : "does not exist yet: Rondo makes it at the first use";
  const risk = directoryRisk(config.store);
  const tampering = risk === null ? "" : `; ${risk.what}: ${risk.mend}`;
  const verdict = isLow || risk !== null ? "note" : "ok";
  return { what, verdict, says: `${config.store} ${exists}; ${room}${tampering}` };
}

function existing(path: string): string {
  let near = path;
  while (!existsSync(near)) near = dirname(near);
  return near;
}

function describeLost(transactions: number): string {
  const many = transactions === 1 ? "1 transaction" : `${transactions} transactions`;
  return `its write-ahead log is damaged or missing, and it has lost at least ${many}; compare with a backup`;
}

/** Checks whether the server that other verbs would use answers. No answer is an error only if --url names the server. */
async function server({ config }: LoadedConfig, options: DoctorOptions): Promise<Finding[]> {
  const what = "server";
  const from = Date.now();
  try {
    const { version, name, lostTransactions, broker } = await withServer(options, async ({ rondo, name }) => {
      const ready = await rondo.requester.json<Ready>("/readyz");
      return { name, ...ready, ...(await rondo.requester.json<{ version: string }>("/version")) };
    });
    const more = broker === undefined ? [] : [brokerOf(name, broker)];
    if (lostTransactions !== undefined)
      return [
        { what, verdict: "wrong", says: `${name} opened its store: ${describeLost(lostTransactions)}` },
        ...more,
      ];
    const own = readManifest().version;
    const says = `${name} answers (version ${version}, after ${showDuration(Date.now() - from)})${version === own ? "" : `; this program has version ${own}`}`;
    return [{ what, verdict: version === own ? "ok" : "note", says }, ...more];
  } catch (thrown) {
    const { message, more } = toCliError(thrown);
    const says = [message, ...more.slice(0, 1)].join("; ");
    return [{ what, verdict: config.url === null ? "note" : "wrong", says }];
  }
}

/** The fields of the answer of `/readyz` that `rondo doctor` uses. */
interface Ready {
  readonly lostTransactions?: number;
  /** The state of the server's connection to its broker; undefined if the server has no broker. */
  readonly broker?: string;
}

/** Returns the finding about the server's connection to its broker. */
function brokerOf(name: string, state: string): Finding {
  const what = "broker";
  if (state === "up") return { what, verdict: "ok", says: `${name} is connected to its broker` };
  const says = `the connection of ${name} to its broker is ${state}; its log says why`;
  return { what, verdict: state === "connecting" ? "note" : "wrong", says };
}

/** Shows which pages of other origins may use the API. */
function corsOf({ cors: { origins } }: Config): Finding[] {
  if (origins.length === 0) return [];
  const isAny = origins.includes("*");
  const says = isAny ? "pages of every origin" : `pages of ${origins.join(", ")}`;
  return [
    {
      what: "cors",
      verdict: isAny ? "note" : "ok",
      says: `${says} may use the API, with a token and without cookies`,
    },
  ];
}

/** Checks whether the sandbox works here, so that scripts can run. */
async function sandbox(): Promise<Finding> {
  const what = "sandbox";
  const { chooseJail } = await import("../../worker/sandbox/jail-probe.ts");
  try {
    const { kind } = await chooseJail({ unsafeNoJail: false });
    return { what, verdict: "ok", says: `scripts can run on this machine, in a sandbox (${kind})` };
  } catch (thrown) {
    const { message, more } = toCliError(thrown);
    return { what, verdict: "note", says: [message, ...more].join("; ") };
  }
}

function shownValue(name: SettingName, { config }: LoadedConfig): unknown {
  const value = config[name];
  const { isSecret = false } = SETTINGS[name] as { isSecret?: boolean };
  if (!isSecret || value === null || (Array.isArray(value) && value.length === 0))
    return hidePasswords(value);
  return Array.isArray(value) ? value.map(() => "(secret)") : "(secret)";
}

function showValue({ name, value }: { name: string; value: unknown }): string | null {
  if (value === null) return null;
  const { show } = SETTINGS[name as SettingName] as { show?: (value: unknown) => string };
  if (show !== undefined) return show(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A finding about one state store. */
interface StateFinding {
  readonly what: string;
  readonly verdict: "ok" | "wrong";
  readonly says: string;
}

const TIMEOUT_MS = 5_000;

/** Checks each configured state store outside of Rondo's own store. */
async function checkStateStores({ stateStores }: Config): Promise<StateFinding[]> {
  if (Object.keys(stateStores).length === 0) return [];
  const [{ parseStateStores }, { openStateStore }] = await Promise.all([
    import("../../commands/state/state-settings.ts"),
    import("../../commands/state/state-stores.ts"),
  ]);
  const findings: StateFinding[] = [];
  for (const [name, settings] of Object.entries(unwrap(parseStateStores(stateStores)))) {
    if (settings.kind === "embedded") continue;
    const store = await openStateStore(name, settings, () => {});
    try {
      await store.get({ store: name, key: "rondo doctor", partition: null }, { timeoutMs: TIMEOUT_MS });
      findings.push({ what: "state", verdict: "ok", says: `${name} (${settings.kind}) answers` });
    } catch (thrown) {
      if (!(thrown instanceof Error)) throw thrown;
      const hint =
        thrown instanceof RondoError || thrown.message === "" ? "" : ` at ${placeOf(settings.url)}`;
      const says = `${name} (${settings.kind}) does not answer${hint}: ${thrown.message || thrown.name}`;
      findings.push({ what: "state", verdict: "wrong", says });
    } finally {
      await store.close();
    }
  }
  return findings;
}

/** Returns the URL of a state store without its password. */
function placeOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : "its address";
}
