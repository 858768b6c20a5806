/**
 * The RabbitMQ of the bench: the one of RABBITMQ_URL, else one of its own from the binaries of this machine, in a
 * folder, on free ports, with its settings as they come.
 */
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { connect } from "amqplib";

const START_MS = 120_000;
const ASK_MS = 50;

export class LocalRabbit {
  readonly url: string;
  readonly #children: readonly ChildProcess[];

  private constructor(url: string, children: readonly ChildProcess[]) {
    this.url = url;
    this.#children = children;
  }

  /** One that runs already, or one in this folder; resolves when it lets clients in. */
  static async start(folder: string): Promise<LocalRabbit> {
    const given = process.env["RABBITMQ_URL"];
    if (given !== undefined && given !== "") return new LocalRabbit(given, []);
    const command = findCommand();
    const place = join(folder, "rabbitmq");
    mkdirSync(place);
    const [port, epmdPort, distributionPort] = (await freePorts(3)) as [number, number, number];
    const settings = [`listeners.tcp.default = 127.0.0.1:${port}`, "log.file = false", "log.console = true"];
    writeFileSync(join(place, "rabbitmq.conf"), `${settings.join("\n")}\n`);
    writeFileSync(join(place, "enabled_plugins"), "[].\n");
    const env = environment(place, { port, epmdPort, distributionPort });
    const log = openSync(join(place, "server.log"), "a");
    const options: SpawnOptions = { cwd: place, env, stdio: ["ignore", log, log] };
    const epmd = spawn("epmd", ["-port", String(epmdPort)], options);
    const server = spawn(command, [], options);
    closeSync(log);
    const rabbit = new LocalRabbit(`amqp://guest:guest@127.0.0.1:${port}`, [server, epmd]);
    await rabbit.#ready(server, join(place, "server.log"));
    return rabbit;
  }

  /** Ends it at once, if it is ours; its folder can be removed then. */
  async stop(): Promise<void> {
    await Promise.all(
      this.#children.map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const gone = once(child, "exit");
        child.kill("SIGKILL");
        await gone;
      }),
    );
  }

  async #ready(server: ChildProcess, log: string): Promise<void> {
    const until = performance.now() + START_MS;
    while (!(await letsIn(this.url))) {
      if (server.exitCode !== null || performance.now() > until) {
        await this.stop();
        throw new Error(`RabbitMQ did not start: ${readFileSync(log, "utf8")}`);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    }
  }
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

function environment(
  place: string,
  { port, epmdPort, distributionPort }: Readonly<Record<"port" | "epmdPort" | "distributionPort", number>>,
): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    HOME: place,
    LANG: "C.UTF-8",
    // The script becomes the server, so that its process id is the server's.
    RUNNING_UNDER_SYSTEMD: "true",
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `rondo-bench-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(distributionPort),
    RABBITMQ_CONF_ENV_FILE: join(place, "no-environment"),
    RABBITMQ_CONFIG_FILE: join(place, "rabbitmq.conf"),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(place, "no-advanced.config"),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(place, "enabled_plugins"),
    RABBITMQ_MNESIA_BASE: join(place, "data"),
    RABBITMQ_LOG_BASE: join(place, "log"),
    RABBITMQ_GENERATED_CONFIG_DIR: join(place, "config"),
    RABBITMQ_SCHEMA_DIR: join(place, "schema"),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: "-start_epmd false",
  };
}

/** Debian's wrapper on the path would change the user: the script behind it is what is meant. */
function findCommand(): string {
  const debian = "/usr/lib/rabbitmq/bin/rabbitmq-server";
  if (existsSync(debian)) return debian;
  const found =
    spawnSync("sh", ["-c", "command -v rabbitmq-server"], { encoding: "utf8" }).stdout?.trim() ?? "";
  if (found !== "") return found;
  throw new Error(
    "there is no RabbitMQ on this machine: install it (Debian: apt-get install rabbitmq-server), or name one by RABBITMQ_URL",
  );
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  const ports = await Promise.all(
    servers.map(async (server) => {
      await once(server, "listening");
      return (server.address() as { port: number }).port;
    }),
  );
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return ports;
}
