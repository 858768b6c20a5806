/** The shape of a verb of the CLI, and how it is declared to commander. */
import type { Command } from "commander";
import { EXIT, type ExitCode } from "../exit-code.ts";

/** Called with the exit code of the verb that ran. */
export type End = (exit: number) => void;

/** A flag with its help text. `collect` says that the flag can be given several times. */
type Flag = readonly [
  flags: string,
  help: string,
  collect?: (value: string, before?: readonly string[]) => readonly string[],
];

export interface Verb {
  /** The verb's name and its arguments, in commander's notation. */
  readonly name: string;
  readonly summary: string;
  readonly description?: string;
  /** Whether the verb works without a server. Verbs that need a server also have the flags --url, --token, --store and --json. */
  readonly isLocal?: boolean;
  /** Whether this verb runs if the user gives only the name of its group. */
  readonly isDefault?: boolean;
  /** The flags that the verb requires. */
  readonly needed?: readonly Flag[];
  readonly flags?: readonly Flag[];
  /** Loads the verb's code, a function of the arguments and the flags. The function returns the exit code, or nothing for 0. */
  readonly load: () => Promise<(...given: never[]) => void | ExitCode | Promise<void | ExitCode>>;
}

export interface VerbGroup {
  readonly name: string;
  readonly summary: string;
  readonly verbs: readonly Verb[];
}

/** The flags of every verb that uses a server. */
const SERVER_FLAGS: readonly Flag[] = [
  ["--url <url>", "the server (default: $RONDO_URL, else the server of --store)"],
  ["--token <token>", "the token (default: $RONDO_TOKEN)"],
  ["--store <url>", "the data directory of the server (default: $RONDO_STORE, else file:.rondo)"],
  ["--json", "print JSON, one value on a line"],
];

/** Declares a verb, or a group of verbs. */
export function declare(program: Command, verb: Verb | VerbGroup, end: End): void {
  if ("verbs" in verb) {
    const group = program.command(verb.name).summary(verb.summary);
    for (const one of verb.verbs) declare(group, one, end);
    return;
  }
  const { name, summary, description = summary, needed = [], flags = [] } = verb;
  const command = program.command(name, { isDefault: verb.isDefault === true });
  command.summary(summary).description(description);
  for (const [flag, help] of verb.isLocal === true ? [] : SERVER_FLAGS) command.option(flag, help);
  for (const [flag, help] of needed) command.requiredOption(flag, help);
  for (const [flag, help, collect] of flags)
    if (collect === undefined) command.option(flag, help);
    else command.option(flag, help, collect);
  command.action(async (...given: unknown[]) => {
    const action = await verb.load();
    // Commander passes the command itself as the last argument.
    end((await action(...(given.slice(0, -1) as never[]))) ?? EXIT.ok);
  });
}
