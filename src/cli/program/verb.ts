/** How verbs are declared: their arguments and options here and now, their code only when they are used. */
import type { Command } from "commander";

/** Takes the exit code of the verb that ran. */
export type End = (exit: number) => void;

export interface VerbSpec {
  readonly summary: string;
  readonly description?: string;
  /** For a verb that talks to a server: adds --url, --token, --store and --json. */
  readonly isRemote?: boolean;
  /** The verb of its group that is meant if none is named. */
  readonly isDefault?: boolean;
}

/** Declares a verb; `name` may hold its arguments, as commander writes them. */
export function verb(group: Command, name: string, spec: VerbSpec): Command {
  const command = group.command(name, { isDefault: spec.isDefault === true }).summary(spec.summary);
  command.description(spec.description ?? spec.summary);
  if (spec.isRemote) serverOptions(command);
  return command;
}

/** The options by which a server is found and asked. */
export function serverOptions(command: Command): Command {
  return command
    .option("--url <url>", "the server (default: $RONDO_URL, else the one that works on --store)")
    .option("--token <token>", "who asks (default: $RONDO_TOKEN)")
    .option(
      "--store <url>",
      "the data directory whose server is meant (default: $RONDO_STORE, else file:.rondo)",
    )
    .option("--json", "print JSON, one value on a line");
}
