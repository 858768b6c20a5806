/**
 * A real RabbitMQ for tests, found in this order: the one that RABBITMQ_URL names (a URL of a user who may make
 * vhosts through the management plugin, RABBITMQ_MANAGEMENT_URL where that is not at port 15672 of the same host);
 * else one of our own, from the binaries of this machine, on free ports in a temporary folder; else the same after
 * installing them with apt-get. Where none of this works it is said loudly what was not run, and with CI=true it is
 * an error. Each test works in a vhost of its own.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { connect } from "amqplib";
import { until } from "../faults/until.ts";
import { Management } from "./management.ts";
import { TestBroker } from "./test-broker.ts";

const MISSING =
  "there is no RabbitMQ for the tests: set RABBITMQ_URL to the URL of one, or install it " +
  "(Debian: apt-get install rabbitmq-server)";

/** Where a server of ours keeps everything, and on which ports it and its Erlang listen. */
interface Site {
  readonly place: string;
  readonly port: number;
  readonly managementPort: number;
  readonly epmdPort: number;
  readonly distributionPort: number;
}

/** A server of our own, which can be stopped, killed and put back. */
export class RabbitServer {
  readonly #command: string;
  readonly #site: Site;
  #epmd: ChildProcess | null = null;
  #process: ChildProcess | null = null;

  private constructor(command: string, site: Site) {
    this.#command = command;
    this.#site = site;
  }

  /** Started and ready; `place`: the folder for what it keeps. */
  static async make(place = mkdtempSync(join(tmpdir(), "rondo-rabbitmq-"))): Promise<RabbitServer> {
    const command = findCommand();
    if (command === null) throw new Error(MISSING);
    const [port, managementPort, epmdPort, distributionPort] = await freePorts();
    const server = new RabbitServer(command, { place, port, managementPort, epmdPort, distributionPort });
    server.#writeSettings();
    await server.start();
    return server;
  }

  get place(): string {
    return this.#site.place;
  }

  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.#site.port}`;
  }

  get management(): Management {
    return new Management(`http://guest:guest@127.0.0.1:${this.#site.managementPort}`);
  }

  /** The ids of the processes that it consists of. */
  get pids(): readonly number[] {
    return [this.#process, this.#epmd].flatMap((child) => child?.pid ?? []);
  }

  get isRunning(): boolean {
    return this.#process !== null && this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** What the server has said. */
  get log(): string {
    return readFileSync(join(this.place, "server.log"), "utf8");
  }

  /** Resolves when it lets clients in, and its management too. */
  async start(): Promise<void> {
    this.#epmd ??= this.#spawn("epmd", ["-port", String(this.#site.epmdPort)]);
    const child = this.#spawn(this.#command, []);
    this.#process = child;
    const isOver = () => child.exitCode !== null || child.signalCode !== null;
    const isUp = async () => (await letsIn(this.url)) && (await this.management.isUp());
    await until("RabbitMQ lets clients in", async () => isOver() || (await isUp()), { limitMs: 120_000 });
    if (isOver()) throw new Error(`RabbitMQ did not start: ${this.log}`);
  }

  /** term: as an administrator stops it; kill: as if the power went. */
  async stop(how: "term" | "kill" = "term"): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    this.#process = null;
    const gone = once(child, "exit");
    child.kill(how === "term" ? "SIGTERM" : "SIGKILL");
    await gone;
  }

  /** Down and up again at the same address with what it keeps. */
  async restart(how: "term" | "kill" = "term"): Promise<void> {
    await this.stop(how);
    await this.start();
  }

  /** Does something with the administrator's tool; answers what it says. */
  async control(...args: readonly string[]): Promise<string> {
    const command = join(dirname(this.#command), "rabbitmqctl");
    const { RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: _, RABBITMQ_DIST_PORT: __, ...env } = this.#environment();
    const child = spawn(command, args, { cwd: this.place, env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (data: Buffer) => {
        said += data.toString();
      });
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`rabbitmqctl ${args.join(" ")}: ${said}`);
    return said;
  }

  async remove(): Promise<void> {
    await this.stop("kill");
    this.kill();
    rmSync(this.place, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Ends everything at once, for when this process ends. */
  kill(): void {
    this.#process?.kill("SIGKILL");
    this.#epmd?.kill("SIGKILL");
    this.#epmd = null;
  }

  /** Lets this process end while the server goes on. */
  unref(): void {
    this.#process?.unref();
    this.#epmd?.unref();
  }

  #writeSettings(): void {
    const { place, port, managementPort } = this.#site;
    const settings = [
      `listeners.tcp.default = 127.0.0.1:${port}`,
      "management.tcp.ip = 127.0.0.1",
      `management.tcp.port = ${managementPort}`,
      "collect_statistics_interval = 1000",
      "log.console.level = warning",
      "log.file = false",
      "log.console = true",
    ];
    writeFileSync(join(place, "rabbitmq.conf"), `${settings.join("\n")}\n`);
    writeFileSync(join(place, "enabled_plugins"), "[rabbitmq_management].\n");
  }

  #spawn(command: string, args: readonly string[]): ChildProcess {
    const log = openSync(join(this.place, "server.log"), "a");
    const child = spawn(command, args, {
      cwd: this.place,
      detached: true,
      stdio: ["ignore", log, log],
      env: this.#environment(),
    });
    closeSync(log);
    return child;
  }

  /** Nothing of the machine's own RabbitMQ, if it has one, is read, written or spoken to. */
  #environment(): NodeJS.ProcessEnv {
    const { place, port, epmdPort, distributionPort } = this.#site;
    return {
      PATH: process.env["PATH"],
      HOME: place,
      LANG: "C.UTF-8",
      // The script becomes the server, so that its process id is the server's.
      RUNNING_UNDER_SYSTEMD: "true",
      ERL_EPMD_PORT: String(epmdPort),
      ERL_EPMD_ADDRESS: "127.0.0.1",
      RABBITMQ_NODENAME: `rondo-${port}@localhost`,
      RABBITMQ_DIST_PORT: String(distributionPort),
      RABBITMQ_CONF_ENV_FILE: join(place, "no-environment"),
      RABBITMQ_CONFIG_FILE: join(place, "rabbitmq.conf"),
      RABBITMQ_ADVANCED_CONFIG_FILE: join(place, "no-advanced.config"),
      RABBITMQ_ENABLED_PLUGINS_FILE: join(place, "enabled_plugins"),
      RABBITMQ_MNESIA_BASE: join(place, "data"),
      RABBITMQ_LOG_BASE: join(place, "log"),
      RABBITMQ_GENERATED_CONFIG_DIR: join(place, "config"),
      RABBITMQ_SCHEMA_DIR: join(place, "schema"),
      // Its schedulers do not spin: the tests want the processor.
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
        "+sbwt none +sbwtdcpu none +sbwtdio none -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
    };
  }
}

/**
 * A vhost of its own at the server that all test files of a run share; null if there is no RabbitMQ to be had, which
 * has been said then. Call `remove()` when done.
 */
export async function openTestBroker(): Promise<TestBroker | null> {
  const given = process.env["RABBITMQ_URL"];
  if (given !== undefined && given !== "") {
    const at = new URL(given);
    const user = `${at.username === "" ? "guest" : at.username}:${at.password === "" ? "guest" : at.password}`;
    const management =
      process.env["RABBITMQ_MANAGEMENT_URL"] ??
      `http://${user}@${at.hostname === "" ? "127.0.0.1" : at.hostname}:15672`;
    return TestBroker.open(given, new Management(management));
  }
  if (!isRabbitHere()) return null;
  const shared = await sharedServer();
  return TestBroker.open(shared.url, new Management(shared.management));
}

/** Whether a server of our own can be run here; if not, it is said, and with CI=true it is an error. */
export function isRabbitHere(): boolean {
  if (findCommand() !== null) return true;
  if (process.env["CI"] === "true") throw new Error(MISSING);
  console.warn(`NOT RUN: ${MISSING}`);
  return false;
}

/** What the first test file that needs the server writes down for the others. */
interface Shared {
  readonly url: string;
  readonly management: string;
  readonly pids: readonly number[];
}

/**
 * The first that asks starts it in the folder that the run has for it; the run's end stops it (global-setup.ts). An
 * Erlang that starts costs seconds, so one serves all.
 */
async function sharedServer(): Promise<Shared> {
  const place = process.env["RONDO_TEST_BROKER_PLACE"];
  if (place === undefined)
    throw new Error("RONDO_TEST_BROKER_PLACE is not set: test/broker/global-setup.ts did not run");
  const note = join(place, "server.json");
  try {
    closeSync(openSync(join(place, "started"), "wx"));
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    await until("another test file has started RabbitMQ", () => existsSync(note), { limitMs: 120_000 });
    return JSON.parse(readFileSync(note, "utf8")) as Shared;
  }
  const server = await RabbitServer.make(place);
  const shared = { url: server.url, management: server.management.url, pids: server.pids };
  writeFileSync(`${note}.new`, JSON.stringify(shared));
  renameSync(`${note}.new`, note);
  server.unref();
  return shared;
}

async function letsIn(url: string): Promise<boolean> {
  try {
    const connection = await connect(url);
    await connection.close();
    return true;
  } catch (error) {
    if (error instanceof Error) return false;
    throw error;
  }
}

function findCommand(): string | null {
  const found = command();
  if (found !== null || process.getuid?.() !== 0) return found;
  console.warn("RabbitMQ is not here: installing it with apt-get");
  spawnSync(
    "sh",
    ["-c", "apt-get update -q && apt-get install -qy --no-install-recommends rabbitmq-server"],
    {
      stdio: "ignore",
      // The run level keeps the service that the package brings from starting.
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" },
    },
  );
  return command();
}

/** Debian's wrapper on the path would change the user: the script behind it is what is meant. */
function command(): string | null {
  const debian = "/usr/lib/rabbitmq/bin/rabbitmq-server";
  if (existsSync(debian)) return debian;
  const which = spawnSync("sh", ["-c", "command -v rabbitmq-server"], { encoding: "utf8" });
  const found = which.stdout?.trim() ?? "";
  return found === "" ? null : found;
}

async function freePorts(): Promise<[number, number, number, number]> {
  const servers = [1, 2, 3, 4].map(() => createServer().listen(0, "127.0.0.1"));
  const ports = servers.map(async (server) => {
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    return address.port;
  });
  const found = await Promise.all(ports);
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return found as [number, number, number, number];
}
