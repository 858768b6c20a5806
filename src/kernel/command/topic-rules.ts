/**
 * Names of topics, and the rules for which topics a project may use. An open project may use any topic that is not reserved. A
 * project is guarded if the settings list `topics` for it or a token is bound to it. A guarded project may use only the listed
 * patterns and its own names, `<project>_*`. An engine checks this before it leases a command.
 */
import { type Rejection, reject } from "../../std/rejection.ts";
import type { PlannedCommand } from "../definition/plan.ts";

interface ProjectTopics {
  /** Patterns of topics, in which `*` stands for any text; undefined if the settings do not list any. */
  readonly topics?: readonly string[];
}

export interface TopicRulesOptions {
  /** The prefix of Rondo's own names at the broker. */
  readonly prefix: string;
  readonly projects: Readonly<Record<string, ProjectTopics>>;
  /** Projects that a token is bound to. */
  readonly bound?: ReadonlySet<string>;
}

/** The topic of a command, and the topic of its receipts. */
export interface CommandTopics {
  readonly topic: string;
  readonly receiptTopic: string;
}

/**
 * The entry in a set of bound projects if a token cannot be read, so that any project may be bound. It is not a valid name.
 */
export const EVERY_PROJECT = "*";

/** Prefixes of names that belong to RabbitMQ and to Rondo, whatever the settings say. */
const RESERVED: readonly string[] = ["amq.", "rondo."];

export class TopicRules {
  readonly #prefix: string;
  readonly #projects: Readonly<Record<string, ProjectTopics>>;
  #bound: ReadonlySet<string>;

  constructor({ prefix, projects, bound = new Set() }: TopicRulesOptions) {
    this.#prefix = prefix;
    this.#projects = projects;
    this.#bound = bound;
  }

  /** Replaces the set of projects that a token is bound to. */
  bind(projects: ReadonlySet<string>): void {
    this.#bound = projects;
  }

  /** The refusal of a reserved name; null if the name is not reserved. */
  reserved(name: string): Rejection | null {
    return refuseReserved(name, [...RESERVED, `${this.#prefix}.`]);
  }

  /** The refusal of a command to these topics; null if the project may use them. */
  refusal(project: string, { topic, receiptTopic }: CommandTopics): Rejection | null {
    const reserved = this.reserved(topic) ?? this.reserved(receiptTopic);
    if (reserved !== null) return reserved;
    if (!this.#isGuarded(project)) return null;
    const isDerived = receiptTopic === receiptTopicOf(topic) && this.#isListed(project, topic);
    // The default receipt topic of a listed topic is allowed with it, unless the name belongs to another guarded project.
    const isWithIt = isDerived && this.#guardedOwners(receiptTopic).every((owner) => owner === project);
    const asked = isWithIt ? [topic] : [topic, receiptTopic];
    const name = asked.find((one) => !this.#isAllowed(project, one));
    if (name === undefined) return null;
    const why = this.#whyGuarded(project);
    return reject("forbidden", `the project "${project}" may not use the topic "${name}": ${why}`, {
      path: "topic",
      hint: `add "${name}" to projects.${project}.topics in the server's configuration, or use a name that begins with "${project}_"`,
    });
  }

  /** The first refusal among the commands of a workflow, with the place of the command; null if there is none. */
  refusalOf(project: string, commands: readonly PlannedCommand[]): Rejection | null {
    for (const { phase, handler, command } of commands) {
      const refusal = this.refusal(project, command);
      if (refusal !== null) return atCommand(refusal, { phase: phase.name, handler: handler.name });
    }
    return null;
  }

  #isGuarded(project: string): boolean {
    return this.#bound.has(project) || this.#bound.has(EVERY_PROJECT) || this.#listOf(project) !== undefined;
  }

  #whyGuarded(project: string): string {
    if (this.#listOf(project) !== undefined) return "its topics are listed";
    return this.#bound.has(project)
      ? "a token is bound to it"
      : "a stored token is damaged, so it is not known whether one is bound to it (rondo audit names the token; revoke it)";
  }

  #isAllowed(project: string, name: string): boolean {
    if (this.#isListed(project, name)) return true;
    if (!name.startsWith(`${project}_`)) return false;
    // "a_b_CMD" is a name of the guarded project "a_b", not of "a".
    return !this.#guardedOwners(name).some((other) => other.startsWith(`${project}_`));
  }

  #isListed(project: string, name: string): boolean {
    return (this.#listOf(project) ?? []).some((pattern) => matchesTopic(pattern, name));
  }

  /** Guarded projects that a name begins with. */
  #guardedOwners(name: string): string[] {
    const known = [...this.#bound, ...Object.keys(this.#projects)];
    return known.filter((project) => name.startsWith(`${project}_`) && this.#isGuarded(project));
  }

  #listOf(project: string): readonly string[] | undefined {
    return Object.hasOwn(this.#projects, project) ? this.#projects[project]?.topics : undefined;
  }
}

/** Whether a name fits a pattern, in which each `*` stands for any text. */
export function matchesTopic(pattern: string, name: string): boolean {
  const parts = pattern.split("*");
  const [first = ""] = parts;
  if (parts.length === 1) return pattern === name;
  const last = parts.at(-1) ?? "";
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last))
    return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return at <= name.length - last.length;
}

/** Why a name is reserved under every configuration; null if it is not. */
export function reservedTopic(name: string): Rejection | null {
  return refuseReserved(name, RESERVED);
}

/** Adds to a refusal the place of its command in a definition, in the form that parsers use. */
export function atCommand(
  { code, message, hint, path = "topic" }: Rejection,
  { phase, handler }: { readonly phase: string; readonly handler: string },
): Rejection {
  const at = `phase "${phase}" handler "${handler}".${path}`;
  return reject(code, `${at}: ${message}`, { path: at, ...(hint === undefined ? {} : { hint }) });
}

function refuseReserved(name: string, prefixes: readonly string[]): Rejection | null {
  const prefix = prefixes.find((reserved) => name.startsWith(reserved));
  if (prefix === undefined) return null;
  const owner = prefix === "amq." ? "RabbitMQ" : "Rondo";
  return reject(
    "invalid_input",
    `"${name.slice(0, 80)}" cannot be a topic: ${owner} uses such names itself`,
    {
      path: "topic",
      hint: `choose a name that does not begin with "${prefix}"`,
    },
  );
}

const TOPIC_USE = "topic:";

/** The wire name under which workers serve a topic. */
export function topicUse(topic: string): string {
  return `${TOPIC_USE}${topic}`;
}

/** The topic in a wire name; null if it is the name of a handler. */
export function topicOf(use: string): string | null {
  return use.startsWith(TOPIC_USE) ? use.slice(TOPIC_USE.length) : null;
}

/** The default topic for receipts of a topic's commands. */
export function receiptTopicOf(topic: string): string {
  const segments = topic.split("_");
  const at = segments.indexOf("CMD");
  return at < 0 ? `${topic}_RECEIPT` : segments.with(at, "RECEIPT").join("_");
}
