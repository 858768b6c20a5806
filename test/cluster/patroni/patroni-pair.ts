/** Two PostgreSQL servers under Patroni with a real etcd, from Debian's packages, in a temporary folder on free ports. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../../../tools/bench/free-ports.ts";
import { findBinaries, otherUser } from "../../../tools/bench/postgres/local-postgres.ts";
import type { ClusterDatabase } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import { until } from "../../fixtures/until.ts";

const PASSWORD = "rondo";

interface Member {
  readonly name: string;
  readonly port: number;
  readonly restPort: number;
  readonly data: string;
  process: ChildProcess;
}

export class PatroniPair implements ClusterDatabase {
  readonly #folder: string;
  readonly #etcd: ChildProcess;
  readonly #members: readonly Member[];
  #leader: Member | null = null;

  private constructor(folder: string, etcd: ChildProcess, members: readonly Member[]) {
    this.#folder = folder;
    this.#etcd = etcd;
    this.#members = members;
  }

  /** Resolves when there is a leader with a synchronous standby. */
  static async start(): Promise<PatroniPair> {
    for (const command of ["etcd", "patroni"])
      if (spawnSync(command, ["--version"]).error !== undefined)
        throw new Error(
          `${command} is not here: apt-get install --no-install-recommends patroni etcd-server python3-etcd`,
        );
    const folder = mkdtempSync(join(tmpdir(), "rondo-patroni-"));
    chmodSync(folder, 0o777);
    const [client = 0, peer = 0, ...ports] = await freePorts(6);
    const etcd = run(folder, "etcd", [
      ...["--data-dir", join(folder, "etcd"), "--name", "one"],
      ...[
        "--listen-client-urls",
        `http://127.0.0.1:${client}`,
        "--advertise-client-urls",
        `http://127.0.0.1:${client}`,
      ],
      ...[
        "--listen-peer-urls",
        `http://127.0.0.1:${peer}`,
        "--initial-advertise-peer-urls",
        `http://127.0.0.1:${peer}`,
      ],
      ...["--initial-cluster", `one=http://127.0.0.1:${peer}`],
    ]);
    const members = ["a", "b"].map((name, i): Member => {
      const [port = 0, restPort = 0] = ports.slice(2 * i, 2 * i + 2);
      const data = join(folder, name);
      const file = join(folder, `${name}.json`);
      writeFileSync(file, JSON.stringify(settingsOf({ name, port, restPort, data, etcd: client })), {
        mode: 0o644,
      });
      return { name, port, restPort, data, process: run(folder, "patroni", [file], name) };
    });
    const pair = new PatroniPair(folder, etcd, members);
    try {
      await until("there is a leader with a synchronous standby", async () => {
        const states = await Promise.all(members.map((member) => pair.#stateOf(member)));
        return (await pair.findLeader()) && states.some((state) => state?.["sync_standby"] === true);
      });
    } catch (thrown) {
      const logs = members.map(({ name }) => readFileSync(join(folder, `${name}.log`), "utf8").slice(-2_000));
      await pair.stop();
      throw new Error(`Patroni did not start:\n${logs.join("\n")}`, { cause: thrown });
    }
    return pair;
  }

  get leader(): Member {
    if (this.#leader === null) throw new Error("there is no leader");
    return this.#leader;
  }

  get url(): string {
    return `postgres://postgres:${PASSWORD}@127.0.0.1:${this.leader.port}/postgres`;
  }

  get nodesUrl(): string {
    const hosts = this.#members.map(({ port }) => `127.0.0.1:${port}`).join();
    return `postgres://postgres:${PASSWORD}@${hosts}/postgres?target_session_attrs=read-write`;
  }

  get isRunning(): boolean {
    return this.#leader !== null;
  }

  /** Asks Patroni who leads; false: nobody does now. */
  async findLeader(): Promise<boolean> {
    for (const member of this.#members) {
      const state = await this.#stateOf(member);
      if (state?.["role"] !== "master" || state["state"] !== "running") continue;
      this.#leader = member;
      return true;
    }
    this.#leader = null;
    return false;
  }

  /** Kills the leader's Patroni and its PostgreSQL, as a machine that loses its power. */
  async killLeader(): Promise<void> {
    const { process: patroni, data } = this.leader;
    const postmaster = Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);
    const isOver = once(patroni, "exit");
    patroni.kill("SIGKILL");
    process.kill(postmaster, "SIGKILL");
    await isOver;
    this.#leader = null;
  }

  async stop(): Promise<void> {
    for (const { process: patroni } of this.#members) await end(patroni);
    await end(this.#etcd);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #stateOf({ restPort }: Member): Promise<Record<string, unknown> | null> {
    try {
      return (await (await fetch(`http://127.0.0.1:${restPort}/patroni`)).json()) as Record<string, unknown>;
    } catch (thrown) {
      // It does not listen now.
      if (thrown instanceof TypeError) return null;
      throw thrown;
    }
  }
}

/** Patroni reads YAML, of which JSON is a part. */
function settingsOf(at: {
  name: string;
  port: number;
  restPort: number;
  data: string;
  etcd: number;
}): unknown {
  const { name, port, restPort, data, etcd } = at;
  return {
    scope: "rondo",
    name,
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    etcd3: { host: `127.0.0.1:${etcd}` },
    bootstrap: {
      dcs: { ttl: 20, loop_wait: 2, retry_timeout: 5, synchronous_mode: true },
      initdb: [{ encoding: "UTF8" }, { locale: "C" }],
      pg_hba: ["host all all 127.0.0.1/32 md5", "host replication replicator 127.0.0.1/32 md5"],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: data,
      bin_dir: findBinaries(),
      pgpass: `${data}.pgpass`,
      authentication: {
        superuser: { username: "postgres", password: PASSWORD },
        replication: { username: "replicator", password: PASSWORD },
      },
      parameters: { unix_socket_directories: "" },
    },
  };
}

/** Starts a program as the user of PostgreSQL, with a log in the folder. */
function run(folder: string, command: string, args: readonly string[], name = command): ChildProcess {
  const log = openSync(join(folder, `${name}.log`), "a", 0o666);
  const home = join(folder, `home-${name}`);
  mkdirSync(home, { mode: 0o777 });
  const child = spawn(command, args, {
    ...otherUser(),
    cwd: folder,
    env: { ...process.env, HOME: home },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  return child;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const isOver = once(child, "exit");
  child.kill("SIGTERM");
  await isOver;
}
