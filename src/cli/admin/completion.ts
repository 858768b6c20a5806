/** `rondo completion bash|zsh|fish`: prints a completion script, made from the declared verbs and options. */
import type { Argument, Command, Option } from "commander";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { print } from "../output/print.ts";

const SHELLS: Readonly<Record<string, (verbs: readonly Verb[]) => string>> = { bash, zsh, fish };

/** Prints the script for a shell. */
export function completion(program: Command, shell: string): void {
  const write = SHELLS[shell];
  if (write === undefined)
    throw new CliError(EXIT.usage, `there is no completion for "${shell}"`, [
      `supported shells are: ${Object.keys(SHELLS).join(", ")}`,
    ]);
  print(write(verbsOf(program)));
}

interface Verb {
  readonly name: string;
  readonly summary: string;
  /** Words that can follow the verb: the verbs of its group, or the choices of its argument. */
  readonly words: readonly { readonly name: string; readonly summary: string }[];
  readonly options: readonly {
    readonly flags: readonly string[];
    readonly summary: string;
    readonly takes: boolean;
  }[];
  readonly takes: "id" | "file" | "nothing";
}

function verbsOf(program: Command): Verb[] {
  return program.commands.map((command) => {
    const members = command.commands.filter((member) => member.name() !== "help");
    const [argument] = command.registeredArguments as readonly (Argument | undefined)[];
    const choices = argument?.argChoices ?? [];
    return {
      name: command.name(),
      summary: command.summary() || command.description(),
      words: [
        ...members.map((member) => ({ name: member.name(), summary: member.summary() })),
        ...choices.map((name) => ({ name, summary: "" })),
      ],
      options: uniqueOptions([command, ...members]),
      takes: argument === undefined ? "nothing" : argument.name() === "id" ? "id" : "file",
    };
  });
}

function uniqueOptions(commands: readonly Command[]): Verb["options"] {
  const found = new Map<string, Option>();
  for (const option of commands.flatMap((command) => command.options)) found.set(option.flags, option);
  return [...found.values()].map((option) => ({
    flags: [option.short, option.long].filter((flag) => flag !== undefined && flag !== null),
    summary: option.description,
    takes: option.required || option.optional,
  }));
}

function flagsOf(verb: Verb): string[] {
  return [...verb.options.flatMap(({ flags }) => flags), "--help"];
}

function bash(verbs: readonly Verb[]): string {
  const cases = verbs.map((verb) => {
    const ids = verb.takes === "id" ? " $(__rondo_ids)" : "";
    const words = [...verb.words.map(({ name }) => name), ...flagsOf(verb)].join(" ");
    return `    ${verb.name}) words="${words}${ids}" ;;`;
  });
  return `# rondo: completion for bash. Add to ~/.bashrc: eval "$(rondo completion bash)"
__rondo_ids() {
  rondo ps --json --limit 20 2>/dev/null | sed -n 's/^{"id":"\\([^"]*\\)".*/\\1/p'
}
__rondo() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${verbs.map(({ name }) => name).join(" ")} --help --version"
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F __rondo rondo`;
}

function zsh(verbs: readonly Verb[]): string {
  const list = (items: readonly { name: string; summary: string }[]) =>
    items.map(({ name, summary }) => `'${name}:${plain(summary).replaceAll(":", "\\:")}'`).join(" ");
  const cases = verbs.map((verb) => {
    const options = verb.options.flatMap(({ flags, summary, takes }) =>
      flags.map(
        (flag) => `'${flag}[${plain(summary).replaceAll(/[[\]]/g, "")}]${takes ? ":value:_default" : ""}'`,
      ),
    );
    const first =
      verb.words.length > 0
        ? "'1:word:__rondo_words'"
        : verb.takes === "id"
          ? "'1:id:__rondo_ids'"
          : verb.takes === "file"
            ? "'*:file:_files'"
            : "";
    const words = verb.words.length > 0 ? `      words_of=(${list(verb.words)})\n` : "";
    return `    ${verb.name})\n${words}      _arguments -s ${[first, ...options].filter((part) => part !== "").join(" ")} ;;`;
  });
  return `#compdef rondo
# rondo: completion for zsh. Add to ~/.zshrc: eval "$(rondo completion zsh)"
__rondo_ids() {
  local -a ids
  ids=(\${(f)"$(rondo ps --json --limit 20 2>/dev/null | sed -n 's/^{"id":"\\([^"]*\\)".*/\\1/p')"})
  compadd -a ids
}
__rondo_words() { _describe 'word' words_of }
__rondo() {
  local -a verbs words_of
  verbs=(${list(verbs)})
  if (( CURRENT == 2 )); then
    _describe 'command' verbs
    return
  fi
  local verb="\${words[2]}"
  shift words
  (( CURRENT-- ))
  case "$verb" in
${cases.join("\n")}
  esac
}
compdef __rondo rondo`;
}

function fish(verbs: readonly Verb[]): string {
  const lines = verbs.flatMap((verb) => {
    const inVerb = `-n '__fish_seen_subcommand_from ${verb.name}'`;
    return [
      `complete -c rondo -n __fish_use_subcommand -f -a ${verb.name} -d '${plain(verb.summary)}'`,
      ...verb.words.map(
        ({ name, summary }) => `complete -c rondo ${inVerb} -f -a ${name} -d '${plain(summary)}'`,
      ),
      ...(verb.takes === "id" ? [`complete -c rondo ${inVerb} -f -a '(__rondo_ids)'`] : []),
      ...verb.options.map(({ flags, summary, takes }) => {
        const names = flags.map((flag) =>
          flag.startsWith("--") ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
        );
        return `complete -c rondo ${inVerb} ${names.join(" ")}${takes ? " -r" : ""} -d '${plain(summary)}'`;
      }),
    ];
  });
  return `# rondo: completion for fish. Save as ~/.config/fish/completions/rondo.fish
function __rondo_ids
  rondo ps --json --limit 20 2>/dev/null | string replace -rf '^\\{"id":"([^"]*)".*' '$1'
end
${lines.join("\n")}`;
}

/** Removes characters that are not safe between single quotes in bash, zsh or fish. */
function plain(text: string): string {
  return text.replaceAll(/['\\`$\n]/g, "");
}
