/** `rondo run FILE` if no other process has the data directory open: the engine runs in this process until the execution ends. */
import { type Owner, openOwner, type ServerOptions } from "../../compose/compose-server.ts";
import type { Config } from "../../config/settings.ts";
import type { AnyWorkflow, Rondo } from "../../index.ts";
import type { ExitCode } from "../exit-code.ts";
import { printLog } from "../log-line.ts";
import type { Screen } from "../progress/screen.ts";
import { directoryRisk } from "../server/directory-risk.ts";
import { attach } from "./attach.ts";
import { Detach } from "./detach.ts";
import { followWanted } from "./follow-to-end.ts";
import type { ProcessGuard } from "./guard-process.ts";
import { printStart } from "./print-outcome.ts";
import { goOnCommand, type Wanted } from "./run-options.ts";

/** The most other open executions whose ids are printed. */
const OTHERS_TOLD = 5;

/** Runs the engine and the execution. Throws `DirectoryOwned` if another process has the directory open. */
export async function hostHere(
  screen: Screen,
  guard: ProcessGuard,
  wanted: Wanted,
  config: Config,
): Promise<ExitCode> {
  const { file, options, input, workflows, topics, workflow } = wanted;
  const { store } = config;
  const lasting = { heartbeatMs: config.heartbeat, retentionMs: config.retention };
  const risk = directoryRisk(store);
  if (risk !== null) screen.note(`${risk.what}: ${risk.mend}`);
  let own = "";
  const owner = await openOwner({
    ...lasting,
    store,
    prefix: config.prefix,
    projects: config.projects,
    settings: { claimLeaseMs: config.claimLease, sweepMs: config.sweep },
    stateStores: config.stateStores,
    allowTargets: config.allowTargets,
    webhookSecrets: config.webhookSecrets,
    unsafeNoJail: options.unsafeNoJail === true,
    onLog: (line) => printLog(screen, line, own),
    onFaultLine: (line) => screen.note(line),
    onStop: (reason) => guard.stop("engine", reason),
  });
  const { rondo } = owner;
  const server = new LateServer(owner, { ...lasting, hasDirectory: store.startsWith("file:") });
  const detach = new Detach({
    screen,
    close: (grace) => server.close(grace),
    leave: (exit) => guard.leave(exit),
  });
  try {
    const others = await openExecutions(rondo, workflows);
    rondo.serve(...workflows, ...topics);
    const { handle, before } = await attach(rondo, workflow, input, options);
    own = handle.id;
    guard.goOn = goOnCommand(file, own, options);
    printStart(screen, `${workflow.name}: execution ${own}`, before, `in ${store}`);
    printOthers(
      screen,
      others.filter((id) => id !== own),
    );
    return await followWanted(rondo, wanted, { screen, detach, handle, before });
  } catch (thrown) {
    if (detach.exit === null) throw thrown;
    // Closing the engine caused the error, and the user asked for that with Ctrl-C.
    return detach.exit;
  } finally {
    await (detach.exit === null ? server.close() : detach.closed());
    detach.stop();
  }
}

/** Returns the ids of other open executions that continue because this file has their handlers. */
async function openExecutions(rondo: Rondo, workflows: readonly AnyWorkflow[]): Promise<string[]> {
  const pages = await Promise.all(
    workflows.map(({ name }) => rondo.list({ workflow: name, status: "running", limit: OTHERS_TOLD + 2 })),
  );
  return pages.flatMap((page) => page.data.map(({ id }) => id));
}

function printOthers(screen: Screen, others: readonly string[]): void {
  if (others.length === 0) return;
  const told = others.slice(0, OTHERS_TOLD).join(", ");
  const more = others.length > OTHERS_TOLD ? " and more" : "";
  screen.print(`other open executions in the store also continue until this one ends: ${told}${more}`);
}

/** A run that ends within this time opens no socket for other processes. */
const SHORT_MS = 300;

interface LateOptions extends Pick<ServerOptions, "heartbeatMs" | "retentionMs"> {
  /** Whether the store is a directory. The socket is a file in it. */
  readonly hasDirectory: boolean;
}

interface Closes {
  close(options?: { graceMs?: number }): Promise<void>;
}

class LateServer {
  readonly #owner: Owner;
  readonly #options: LateOptions;
  #timer: NodeJS.Timeout | null = null;
  #opening: Promise<Closes> | null = null;

  constructor(owner: Owner, options: LateOptions) {
    this.#owner = owner;
    this.#options = options;
    if (options.hasDirectory) this.#timer = setTimeout(() => this.#open(), SHORT_MS);
  }

  /** Closes the node, and the server if it was opened. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    const opened: Closes = (await this.#opening) ?? this.#owner.rondo;
    await opened.close(options);
  }

  #open(): void {
    this.#timer = null;
    // If the socket cannot be opened, the run continues without it.
    this.#opening = this.#owner
      .serve({ ...this.#options, port: null })
      .catch((): Closes => this.#owner.rondo);
  }
}
