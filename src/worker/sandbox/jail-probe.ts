/** Finds a jail that works on this machine: starts a sandbox process in each possible jail and lets it try to escape. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { RondoError, reject } from "../../std/rejection.ts";
import type { ProbeFindings } from "./child/messages.ts";
import { type Jail, NO_JAIL, possibleJails } from "./jail.ts";
import { readReport } from "./report-check.ts";
import { SandboxChild } from "./sandbox-child.ts";

const LINE_BYTES_MAX = 65_536;
const MEMORY_BYTES = 64 * 1_048_576;
/** A file that exists on this machine and must not be readable in the jail. */
const OUTSIDE = fileURLToPath(import.meta.url);

/** The jail that works on this machine; set by the first search. */
let found: Promise<Jail> | null = null;

/** Returns a jail that works. If there is none, it returns NO_JAIL if that is allowed, and otherwise throws a `RondoError` with a hint. */
export async function chooseJail({ unsafeNoJail }: { unsafeNoJail: boolean }): Promise<Jail> {
  found ??= findJail(possibleJails());
  try {
    return await found;
  } catch (error) {
    found = null;
    if (unsafeNoJail && error instanceof RondoError) return NO_JAIL;
    throw error;
  }
}

/**
 * Starts a sandbox process in this jail and returns the forbidden operations that worked in it. Throws if the process does not
 * run at all.
 */
export async function probeJail(jail: Jail): Promise<ProbeFindings> {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const child = new SandboxChild({ jail, memoryBytes: MEMORY_BYTES, lineBytesMax: LINE_BYTES_MAX });
  try {
    return await new Promise<ProbeFindings>((resolve, fail) => {
      child.listener = {
        ended: (why) => fail(new Error(why)),
        line(line) {
          const report = line === null ? null : readReport(line);
          if (report?.kind === "ready")
            child.send({
              kind: "probe",
              port: (server.address() as AddressInfo).port,
              file: OUTSIDE,
              pid: process.pid,
            });
          else if (report?.kind === "probed") resolve(report.findings);
          else fail(new Error("the sandbox process did not report what it could do"));
        },
      };
    });
  } finally {
    child.listener = null;
    child.kill();
    server.close();
    await child.ended;
  }
}

/** Lists the forbidden operations that worked in the sandbox process; empty if the jail works. */
export function holesIn(findings: ProbeFindings): string[] {
  return [
    ...(findings.environment.length > 0 ? ["it sees environment variables"] : []),
    ...(findings.connected ? ["it reaches the network"] : []),
    ...(findings.readFile ? ["it reads files"] : []),
    ...(findings.wroteFile ? ["it writes files"] : []),
    ...(findings.sawProcess ? ["it reaches other processes"] : []),
    ...(findings.startedProcess ? ["it starts processes"] : []),
  ];
}

/** Returns the first of these jails that works. Throws a `RondoError` if none does. */
export async function findJail(jails: ReturnType<typeof possibleJails>): Promise<Jail> {
  if ("missing" in jails) throw refusal([jails.missing]);
  const why: string[] = [];
  for (const jail of jails) {
    try {
      const holes = holesIn(await probeJail(jail));
      if (holes.length === 0) return jail;
      why.push(`${jail.kind}: ${holes.join(", ")}`);
    } catch (error) {
      why.push(`${jail.kind}: ${(error as Error).message}`);
    }
  }
  throw refusal(why);
}

function refusal(why: readonly string[]): RondoError {
  return new RondoError(
    reject("not_ready", `scripts cannot run here: their process cannot be jailed (${why.join("; ")})`, {
      hint:
        "on Linux, let this user make user namespaces (sysctl kernel.unprivileged_userns_clone=1 or " +
        "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp " +
        "profile that allows unshare and mount); if every script is trusted, pass --unsafe-no-jail",
    }),
  );
}
