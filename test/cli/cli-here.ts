/**
 * A verb of the CLI within this process: for what it answers, where starting, signals and ending are not the point. Only
 * verbs that ask a server; those that run code or a server need a process of their own (cli-process.ts).
 */
import { runCli } from "../../src/cli/run-cli.ts";
import { cli, type Ended, type ProcessOptions } from "./cli-process.ts";

const VERBS = new Set([
  ...[
    "ps",
    "inspect",
    "events",
    "tasks",
    "logs",
    "why",
    "wait",
    "signal",
    "cancel",
    "pause",
    "resume",
    "retry",
    "audit",
  ],
  ...["schedules", "dlq", "workers", "openapi"],
]);

let turn: Promise<unknown> = Promise.resolve();

/** Runs `rondo ...` to its end, here if it only asks a server. */
export function ask(args: readonly string[], options: Pick<ProcessOptions, "cwd">): Promise<Ended> {
  if (!VERBS.has(args[0] ?? "")) return cli(args, options);
  // One at a time: the folder, the environment and the streams are the process's.
  const asked = turn.then(() => run(args, options.cwd));
  turn = asked.then(
    () => undefined,
    () => undefined,
  );
  return asked;
}

async function run(args: readonly string[], cwd: string): Promise<Ended> {
  const before = { cwd: process.cwd(), env: { ...process.env } };
  const [stdout, stderr] = [new Captured(process.stdout), new Captured(process.stderr)];
  process.chdir(cwd);
  for (const name of Object.keys(process.env)) if (name.startsWith("RONDO_")) delete process.env[name];
  try {
    const code = await runCli(args);
    return { code, signal: null, stdout: stdout.text, stderr: stderr.text };
  } finally {
    stdout.release();
    stderr.release();
    process.chdir(before.cwd);
    Object.assign(process.env, before.env);
  }
}

/** Keeps what is written to a stream instead of writing it. */
class Captured {
  text = "";
  readonly #stream: NodeJS.WriteStream;
  /** What was there instead of the method of its class, if anything was. */
  readonly #own: PropertyDescriptor | undefined;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    this.#own = Object.getOwnPropertyDescriptor(stream, "write");
    stream.write = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
      this.text += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
      const written = rest.find((one) => typeof one === "function") as (() => void) | undefined;
      if (written !== undefined) process.nextTick(written);
      return true;
    };
  }

  release(): void {
    if (this.#own === undefined) Reflect.deleteProperty(this.#stream, "write");
    else Object.defineProperty(this.#stream, "write", this.#own);
  }
}
