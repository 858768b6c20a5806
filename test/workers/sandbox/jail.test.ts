// The outer layer: what the child process itself can reach, tried from within and looked at from outside.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { type Jail, NO_JAIL, possibleJails } from "../../../src/worker/sandbox/jail.ts";
import { findJail, holesIn, probeJail } from "../../../src/worker/sandbox/jail-probe.ts";
import { openSandboxPool } from "../../../src/worker/sandbox/sandbox-pool.ts";
import { attemptOf, runToEnd, testPool } from "../../fixtures/workers/sandbox-fixture.ts";

// Where a machine has no jail (a container without namespaces), there is none to test; refusal is tested below.
const jail: Jail | null = await findJail(possibleJails()).catch(() => null);

const NOTHING = {
  environment: [],
  connected: false,
  readFile: false,
  wroteFile: false,
  sawProcess: false,
  startedProcess: false,
};

describe("the probe", () => {
  test("gets out where there is no jail, so it can tell", async () => {
    vi.stubEnv("RONDO_SECRET", "secret");
    const findings = await probeJail(NO_JAIL);
    vi.unstubAllEnvs();
    // Node's permission model and the empty environment hold even then; the network and processes are open.
    expect(findings).toEqual({ ...NOTHING, connected: true, sawProcess: true });
    expect(holesIn(findings)).toEqual(["it reaches the network", "it reaches other processes"]);
  });

  test.skipIf(jail === null)("gets nowhere in the jail of this machine", async () => {
    vi.stubEnv("RONDO_SECRET", "secret");
    expect(await probeJail(jail as Jail)).toEqual(NOTHING);
    vi.unstubAllEnvs();
  });

  test.skipIf(jail === null || process.getuid?.() !== 0)(
    "gets nowhere in root's jail without a user namespace",
    async () => {
      const rooted = (possibleJails() as readonly Jail[]).find(({ kind }) => kind === "root-namespaces");
      expect(await probeJail(rooted as Jail)).toEqual(NOTHING);
    },
  );
});

describe.skipIf(jail === null)("a child in a jail", () => {
  let inner = 0;
  beforeAll(async () => {
    const pool = await testPool();
    await runToEnd(pool, attemptOf(["s => 1"]));
    const outer = pool.children[0]?.pid ?? 0;
    inner = Number(readFileSync(`/proc/${outer}/task/${outer}/children`, "utf8"));
  });

  test("has no file open but its pipes", () => {
    const open = readdirSync(`/proc/${inner}/fd`).map(
      (fd) => [Number(fd), readlinkSync(`/proc/${inner}/fd/${fd}`)] as const,
    );
    expect(open.filter(([fd]) => fd <= 2).every(([, target]) => target.startsWith("socket:"))).toBe(true);
    // The rest is Node's own: event loops and their wake-ups. None of it is a file, and none came from here.
    const own = /^(?:anon_inode:\[(?:eventpoll|eventfd|io_uring)\]|pipe:\[\d+\])$/;
    expect(open.filter(([fd, target]) => fd > 2 && !own.test(target))).toEqual([]);
    const ours = readdirSync("/proc/self/fd").flatMap((fd) => linkOf(`/proc/self/fd/${fd}`));
    expect(open.filter(([, target]) => target.startsWith("pipe:") && ours.includes(target))).toEqual([]);
  });

  test("has no environment and no capability", () => {
    expect(readFileSync(`/proc/${inner}/environ`, "utf8")).toBe("");
    expect(readFileSync(`/proc/${inner}/status`, "utf8")).toMatch(/CapPrm:\s0+\nCapEff:\s0+\n/);
  });

  test.each(["net", "mnt", "pid", "ipc", "uts"])("has its own %s namespace", (name) => {
    expect(readlinkSync(`/proc/${inner}/ns/${name}`)).not.toBe(readlinkSync(`/proc/self/ns/${name}`));
  });

  test("sees only read-only files: Node, its libraries and its code", () => {
    const mounts = readFileSync(`/proc/${inner}/mountinfo`, "utf8").trim().split("\n");
    const places = mounts.map((line) => line.split(" ")[4] ?? "");
    expect(places.filter((place) => !/^\/(?:$|app\/|lib|usr\/lib)|\/node$/.test(place))).toEqual([]);
    expect(mounts.every((line) => line.split(" ")[5]?.startsWith("ro,"))).toBe(true);
  });

  test("has limits", () => {
    const limits = readFileSync(`/proc/${inner}/limits`, "utf8");
    for (const limit of [
      /Max file size +0 /,
      /Max core file size +0 /,
      /Max open files +64 /,
      /Max data size +\d/,
    ])
      expect(limits).toMatch(limit);
  });
});

describe("without a jail", () => {
  test("scripts are refused, with what is missing and what to do", async () => {
    await expect(findJail({ missing: "the program unshare is needed" })).rejects.toThrow(
      /scripts cannot run here.*the program unshare is needed.*--unsafe-no-jail/s,
    );
    // A jail that leaks is no jail, nor is one that does not start.
    await expect(findJail([NO_JAIL])).rejects.toThrow(/it reaches the network/);
    const broken: Jail = { kind: "namespaces", command: () => ({ file: "/bin/sh", args: ["-c", "exit 3"] }) };
    await expect(findJail([broken])).rejects.toThrow(/namespaces: the sandbox process ended with code 3/);
    const absent: Jail = { kind: "namespaces", command: () => ({ file: "/nowhere", args: [] }) };
    await expect(findJail([absent])).rejects.toThrow(/could not be started/);
  });

  test.skipIf(jail === null)("is not chosen where there is one, even if it is allowed", async () => {
    const pool = await openSandboxPool({ unsafeNoJail: true });
    expect(pool.jail.kind).not.toBe("none");
    await pool.close();
  });
});

function linkOf(path: string): string[] {
  try {
    return [readlinkSync(path)];
  } catch {
    // The listing's own.
    return [];
  }
}
