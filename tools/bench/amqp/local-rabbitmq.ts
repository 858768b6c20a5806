/**
 * A private RabbitMQ for the bench and for tests, from the binaries of this machine. It has its own folder, free ports and its
 * own port mapper, so that it never touches the machine's RabbitMQ.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { connect } from "amqplib";

const START_MS = 120_000;
const ASK_MS = 50;
const DEBIAN = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/** The ports of the broker and of its Erlang node. */
export interface RabbitPorts {
  readonly amqp: number;
  readonly portMapper: number;
  readonly distribution: number;
}

/** Settings that differ from the defaults. */
export interface RabbitSettings {
  /** Lines of rabbitmq.conf. */
  readonly lines?: readonly string[];
  readonly plugins?: readonly string[];
  /** Arguments of the Erlang machine. */
  readonly erlang?: string;
  /** Whether the server outlives the process that starts it. */
  readonly isDetached?: boolean;
}

/** A local server. It can be stopped, killed and restarted at the same address with its data. */
export class LocalRabbit {
  readonly place: string;
  readonly #command: string;
  readonly #ports: RabbitPorts;
  readonly #settings: RabbitSettings;
  #portMapper: ChildProcess | null = null;
  #process: ChildProcess | null = null;

  /** Prepares a server in this folder, which must exist and be empty. Does not start it. */
  constructor(place: string, ports: RabbitPorts, settings: RabbitSettings = {}) {
    const command = findRabbit();
    if (command === null)
      throw new Error(
        "there is no RabbitMQ on this machine: install it (Debian: apt-get install rabbitmq-server), or name one by RABBITMQ_URL",
      );
    const { lines = [], plugins = [] } = settings;
    this.place = place;
    this.#command = command;
    this.#ports = ports;
    this.#settings = settings;
    const all = [
      `listeners.tcp.default = 127.0.0.1:${ports.amqp}`,
      "log.file = false",
      "log.console = true",
      ...lines,
    ];
    writeFileSync(join(place, "rabbitmq.conf"), `${all.join("\n")}\n`);
    writeFileSync(join(place, "enabled_plugins"), `[${plugins.join(",")}].\n`);
  }

  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.#ports.amqp}`;
  }

  get pids(): readonly number[] {
    return [this.#process, this.#portMapper].flatMap((child) => child?.pid ?? []);
  }

  get isRunning(): boolean {
    return this.#process !== null && !hasEnded(this.#process);
  }

  /** The output of the server. */
  get log(): string {
    return readFileSync(join(this.place, "server.log"), "utf8");
  }

  /** Whether the server accepts clients. */
  async isUp(): Promise<boolean> {
    try {
      const connection = await connect(this.url);
      await connection.close();
      return true;
    } catch (error) {
      if (error instanceof Error) return false;
      throw error;
    }
  }

  /** Starts the server; resolves when it accepts clients. */
  async start(): Promise<void> {
    this.#portMapper ??= this.#spawn("epmd", ["-port", String(this.#ports.portMapper)]);
    const child = this.#spawn(this.#command, []);
    this.#process = child;
    const until = performance.now() + START_MS;
    while (!(await this.isUp())) {
      if (hasEnded(child) || performance.now() > until) {
        this.kill();
        throw new Error(`RabbitMQ did not start: ${this.log}`);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    }
  }

  /** Stops the server. `term` is a graceful stop, `kill` is like a power failure. */
  async stop(how: "term" | "kill" = "term"): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || hasEnded(child)) return;
    const gone = once(child, "exit");
    child.kill(how === "term" ? "SIGTERM" : "SIGKILL");
    await gone;
  }

  /** Stops the server and starts it again at the same address with its data. */
  async restart(how: "term" | "kill" = "term"): Promise<void> {
    await this.stop(how);
    await this.start();
  }

  /** Kills all processes of the server without waiting for their end, so that it can be called when this process exits. */
  kill(): void {
    this.#process?.kill("SIGKILL");
    this.#portMapper?.kill("SIGKILL");
    this.#portMapper = null;
  }

  /** Lets this process end while the server goes on. */
  unref(): void {
    this.#process?.unref();
    this.#portMapper?.unref();
  }

  /** Runs `rabbitmqctl`; returns its output. */
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

  #spawn(command: string, args: readonly string[]): ChildProcess {
    const log = openSync(join(this.place, "server.log"), "a");
    const child = spawn(command, args, {
      cwd: this.place,
      detached: this.#settings.isDetached ?? false,
      stdio: ["ignore", log, log],
      env: this.#environment(),
    });
    closeSync(log);
    return child;
  }

  #environment(): NodeJS.ProcessEnv {
    const { amqp, portMapper, distribution } = this.#ports;
    const erlang = this.#settings.erlang ?? "";
    const within = (name: string): string => join(this.place, name);
    return {
      PATH: process.env["PATH"],
      HOME: this.place,
      LANG: "C.UTF-8",
      // The script replaces itself by the server, so that its process id is the server's.
      RUNNING_UNDER_SYSTEMD: "true",
      ERL_EPMD_PORT: String(portMapper),
      ERL_EPMD_ADDRESS: "127.0.0.1",
      RABBITMQ_NODENAME: `rondo-${amqp}@localhost`,
      RABBITMQ_DIST_PORT: String(distribution),
      RABBITMQ_CONF_ENV_FILE: within("no-environment"),
      RABBITMQ_CONFIG_FILE: within("rabbitmq.conf"),
      RABBITMQ_ADVANCED_CONFIG_FILE: within("no-advanced.config"),
      RABBITMQ_ENABLED_PLUGINS_FILE: within("enabled_plugins"),
      RABBITMQ_MNESIA_BASE: within("data"),
      RABBITMQ_LOG_BASE: within("log"),
      RABBITMQ_GENERATED_CONFIG_DIR: within("config"),
      RABBITMQ_SCHEMA_DIR: within("schema"),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `${erlang} -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}`,
    };
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Finds RabbitMQ: the script behind Debian's wrapper (which would change the user), or the one in the PATH. */
export function findRabbit(): string | null {
  if (existsSync(DEBIAN)) return DEBIAN;
  const which = spawnSync("sh", ["-c", "command -v rabbitmq-server"], { encoding: "utf8" });
  const found = which.stdout?.trim() ?? "";
  return found === "" ? null : found;
}
