/**
 * Transcripts: a text of commands, each followed by `----` and by what the kernel answers. Blocks are separated by an
 * empty line; lines that begin with # are for the reader.
 *
 *   workflow              the definition as JSON on the lines below
 *   start [input=J] [startAt=N] [deadline=N]
 *   at N                  the time of what follows
 *   page H J...           a page of tasks            [from=N] [attempt=N] [ids=a,b,c]
 *   seal H                the enumeration is done    [total=N] [failed] [fatal]
 *   receipt H N STATUS    a receipt for task N       [result=J] [error=TEXT] [attempt=N] [round=N] [late] [fatal] [retryAfter=N]
 *   started H N...        attempts began
 *   lost H N...           attempts whose workers went silent
 *   signal NAME [J]       [id=ID]
 *   timer ID              a timer's time has come
 *   pause | resume | cancel | retry   [id=ID]
 *   drained               the owner says that no attempt is open
 *
 * H is a handler of the current visit, or phase/visit/handler. J is JSON without spaces.
 */
import type { Answer, Verdict } from "../../src/kernel/message.ts";
import { parseDefinition } from "../../src/kernel/parse-definition.ts";
import { isRejection } from "../../src/std/rejection.ts";
import { KernelRun } from "./kernel-run.ts";
import { showEvent } from "./show-event.ts";

interface Arguments {
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, string>>;
}

/** The transcript with every expected part replaced by what really came. */
export function replayTranscript(text: string): string {
  const narrator = new Narrator();
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== "");
  return `${blocks.map((block) => playBlock(narrator, block)).join("\n\n")}\n`;
}

function playBlock(narrator: Narrator, block: string): string {
  const lines = block.trimEnd().split("\n");
  const comments = lines.filter((line) => line.startsWith("#"));
  const rest = lines.filter((line) => !line.startsWith("#"));
  if (rest.length === 0) return comments.join("\n");
  const cut = rest.indexOf("----");
  const command = cut < 0 ? rest : rest.slice(0, cut);
  const answer = narrator.play(command[0] as string, command.slice(1).join("\n"));
  return [...comments, ...command, "----", ...answer].join("\n");
}

class Narrator {
  #definition: unknown = null;
  #run: KernelRun | null = null;
  #now = 1_000;

  play(line: string, body: string): string[] {
    const [command = "", ...rest] = line.split(/\s+/);
    const given = readArguments(rest);
    if (command === "workflow") return this.#define(body);
    if (command === "at") {
      this.#now = Number(given.words[0]);
      return [`now ${this.#now}`];
    }
    if (command === "start") return this.#start(given);
    const run = this.#run;
    if (run === null) throw new Error(`${command}: there is no execution yet`);
    run.now = this.#now;
    run.last = [];
    const answer = send(run, command, given);
    return [...run.last.map(showEvent), `-> ${answer}`, `= ${this.#state(run)}`];
  }

  #define(body: string): string[] {
    const parsed = parseDefinition(JSON.parse(body));
    if (isRejection(parsed)) return [`-> refused: ${parsed.message}`];
    this.#definition = parsed;
    return ["-> ok"];
  }

  #start({ options }: Arguments): string[] {
    const run = new KernelRun(this.#definition, {
      now: this.#now,
      ...(options["input"] === undefined ? {} : { input: options["input"] }),
      ...(options["startAt"] === undefined ? {} : { startAt: Number(options["startAt"]) }),
      ...(options["deadline"] === undefined ? {} : { deadline: Number(options["deadline"]) }),
    });
    this.#run = run;
    return [...run.events.map(showEvent), `= ${this.#state(run)}`];
  }

  #state({ execution, status, phase }: KernelRun): string {
    const drains = execution.draining ? ", draining" : "";
    return `${status}${phase === null ? "" : ` in ${phase}/${execution.current?.visit}`}${drains}`;
  }
}

function send(run: KernelRun, command: string, { words, options }: Arguments): string {
  const [first = "", ...rest] = words;
  const numbers = rest.map(Number);
  const { id } = options;
  switch (command) {
    case "page":
      return showAnswer(
        run.page(
          first,
          rest.map((text) => JSON.parse(text) as unknown),
          {
            ...numeric(options, "from", "attempt"),
            ...(options["ids"] === undefined ? {} : { identities: options["ids"].split(",") }),
          },
        ),
      );
    case "seal":
      return showAnswer(
        run.seal(first, {
          ...numeric(options, "total", "attempt"),
          ...("failed" in options ? { status: "failed", payload: errorText("listing failed") } : {}),
          ...("fatal" in options ? { fatal: true } : {}),
        }),
      );
    case "receipt":
      return receipt(run, first, { words: rest, options });
    case "started":
      return showAnswer(run.started(first, ...numbers));
    case "lost":
      return showAnswer(run.lost(first, ...numbers));
    case "signal":
      return showAnswer(run.signal(first, JSON.parse(rest[0] ?? "null"), id));
    case "timer":
      return showAnswer(run.timer(first));
    case "drained":
      return showAnswer(run.drained());
    case "pause":
    case "resume":
    case "cancel":
    case "retry":
      return showAnswer(run.control(command, id));
    default:
      throw new Error(`${command} is not a command`);
  }
}

function receipt(run: KernelRun, handler: string, { words, options }: Arguments): string {
  const [task = "0", status = "done"] = words;
  const payload = options["result"] ?? (status === "done" ? "null" : errorText(options["error"] ?? "boom"));
  const { retryAfter, ...numbers } = numeric(options, "attempt", "round", "retryAfter");
  return String(
    run.receipt(handler, Number(task), {
      status: status as "done",
      payload,
      live: !("late" in options),
      ...numbers,
      ...("fatal" in options ? { fatal: true } : {}),
      ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter }),
    }) satisfies Verdict | undefined,
  );
}

function readArguments(rest: readonly string[]): Arguments {
  const isOption = (word: string) => /^[a-zA-Z]+=/.test(word) || ["late", "fatal", "failed"].includes(word);
  const words: string[] = [];
  const options: Record<string, string> = {};
  for (const [i, word] of rest.entries()) {
    // A status that stands where a status goes is no flag.
    if (!isOption(word) || (word === "failed" && i === 2)) words.push(word);
    else options[word.split("=")[0] as string] = word.split("=").slice(1).join("=");
  }
  return { words, options };
}

function numeric<K extends string>(
  options: Readonly<Record<string, string>>,
  ...names: readonly K[]
): { [N in K]?: number } {
  const given = names.filter((name) => options[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, Number(options[name])])) as { [N in K]?: number };
}

function errorText(message: string): string {
  return JSON.stringify({ name: "Error", message });
}

function showAnswer(answer: Answer): string {
  if (answer.kind === "rejection") return `refused (${answer.code}): ${answer.message}`;
  const verdicts = answer.verdicts === undefined ? "" : ` [${answer.verdicts.join(" ")}]`;
  return answer.kind === "applied" ? `applied${verdicts}` : `ignored: ${answer.why}${verdicts}`;
}
