/**
 * A real RabbitMQ for tests, found in this order: the one that RABBITMQ_URL names (a URL of a user who may make
 * vhosts through the management plugin, RABBITMQ_MANAGEMENT_URL where that is not at port 15672 of the same host);
 * else one of our own, from the binaries of this machine, on free ports in a temporary folder; else the same after
 * installing them with apt-get. Where none of this works the tests fail and say so: nothing is skipped. Each test works
 * in a vhost of its own.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findRabbit, LocalRabbit, type RabbitPorts } from "../../tools/bench/amqp/local-rabbitmq.ts";
import { freePorts } from "../../tools/bench/free-ports.ts";
import { shareServer } from "../tools/shared-server.ts";
import { Management } from "./management.ts";
import { TestBroker } from "./test-broker.ts";

const MISSING =
  "there is no RabbitMQ for the tests: set RABBITMQ_URL to the URL of one, or install it " +
  "(Debian: apt-get install rabbitmq-server)";

/** A server of our own with its management, which can be stopped, killed and put back. */
export class RabbitServer extends LocalRabbit {
  readonly management: Management;

  private constructor(place: string, ports: RabbitPorts, managementPort: number) {
    super(place, ports, {
      lines: [
        "management.tcp.ip = 127.0.0.1",
        `management.tcp.port = ${managementPort}`,
        "collect_statistics_interval = 1000",
        "log.console.level = warning",
      ],
      plugins: ["rabbitmq_management"],
      // Its schedulers do not spin: the tests want the processor.
      erlang: "+sbwt none +sbwtdcpu none +sbwtdio none",
      isDetached: true,
    });
    this.management = new Management(`http://guest:guest@127.0.0.1:${managementPort}`);
  }

  /** Started and ready; `place`: the folder for what it keeps. */
  static async make(place = mkdtempSync(join(tmpdir(), "rondo-rabbitmq-"))): Promise<RabbitServer> {
    installIfMissing();
    const [amqp, portMapper, distribution, management] = (await freePorts(4)) as [
      number,
      number,
      number,
      number,
    ];
    const server = new RabbitServer(place, { amqp, portMapper, distribution }, management);
    await server.start();
    return server;
  }

  override async isUp(): Promise<boolean> {
    return (await super.isUp()) && (await this.management.isUp());
  }

  async remove(): Promise<void> {
    await this.stop("kill");
    this.kill();
    rmSync(this.place, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A vhost of its own at the server that all test files of a run share. Call `remove()` when done. */
export async function openTestBroker(): Promise<TestBroker> {
  const given = process.env["RABBITMQ_URL"] ?? "";
  if (given !== "") return TestBroker.open(given, new Management(managementOf(new URL(given))));
  const { url, management = "" } = await shareServer("rabbitmq", async (place) => {
    const server = await RabbitServer.make(place);
    server.unref();
    return { url: server.url, management: server.management.url, pids: server.pids, end: "SIGKILL" };
  });
  return TestBroker.open(url, new Management(management));
}

function managementOf({ username, password, hostname }: URL): string {
  const given = process.env["RABBITMQ_MANAGEMENT_URL"] ?? "";
  if (given !== "") return given;
  const user = `${username === "" ? "guest" : username}:${password === "" ? "guest" : password}`;
  return `http://${user}@${hostname === "" ? "127.0.0.1" : hostname}:15672`;
}

function installIfMissing(): void {
  if (findRabbit() !== null) return;
  const apt = spawnSync(
    "sh",
    ["-c", "apt-get update -q && apt-get install -qy --no-install-recommends rabbitmq-server"],
    {
      encoding: "utf8",
      // The run level keeps the service that the package brings from starting.
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" },
    },
  );
  if (apt.status !== 0 || findRabbit() === null) throw new Error(`${MISSING}\n${apt.stderr ?? ""}`);
}
