/**
 * Names of topics, and the rules that say which topics a project may use. An open project may use any topic that is not reserved. A
 * project is guarded if the settings list `topics` for it, or if a token is bound to it. A guarded project may use only the listed
 * patterns, and names that begin with `<project>_`. The engine checks this before it leases a command.
 */
import { type Rejection, reject } from "../../std/rejection.ts";
import type { PlannedCommand } from "../definition/plan.ts";

interface ProjectTopics {
  /** Patterns of topics, in which `*` stands for any text; undefined if the settings list none. */
  readonly topics?: readonly string[];
}

export interface TopicRulesOptions {
  /** The prefix of Rondo's own names at the broker. */
  readonly prefix: string;
  readonly projects: Readonly<Record<string, ProjectTopics>>;
  /** The projects to which tokens are bound. */
  readonly bound?: ReadonlySet<string>;
}

/** The topic of a command, and the topic of its receipts. */
export interface CommandTopics {
  readonly topic: string;
  readonly receiptTopic: string;
}

/**
 * Stands for all projects in a set of bound projects, if a stored token cannot be read: any project may be bound then. It is not a
 * valid name of a project.
 */
export const EVERY_PROJECT = "*";

/** Prefixes of names that belong to RabbitMQ and to Rondo. They are reserved with any settings. */
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

  /** Replaces the set of projects to which tokens are bound. */
  bind(projects: ReadonlySet<string>): void {
    this.#bound = projects;
  }

  /** Returns why a topic name is reserved; null if it is not reserved. */
  reserved(name: string): Rejection | null {
    return refuseReserved(name, [...RESERVED, `${this.#prefix}.`]);
  }

  /** Returns why the project may not send a command to these topics; null if it may. */
  refusal(project: string, { topic, receiptTopic }: CommandTopics): Rejection | null {
    const reserved = this.reserved(topic) ?? this.reserved(receiptTopic);
    if (reserved !== null) return reserved;
    if (!this.#isGuarded(project)) return null;
    const isDerived = receiptTopic === receiptTopicOf(topic) && this.#isListed(project, topic);
    // If a topic is allowed, its default receipt topic is allowed too, unless that name belongs to another guarded project.
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

  /** Checks the commands of a workflow. Returns the first refusal, with the place of its command; null if all are allowed. */
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
      ? "a token is bound to the project"
      : "a stored token is damaged, so it is not known whether a token is bound to the project (rondo audit names the token; revoke it)";
  }

  #isAllowed(project: string, name: string): boolean {
    if (this.#isListed(project, name)) return true;
    if (!name.startsWith(`${project}_`)) return false;
    // If "a_b" is a guarded project, the name "a_b_CMD" belongs to "a_b" and not to "a".
    return !this.#guardedOwners(name).some((other) => other.startsWith(`${project}_`));
  }

  #isListed(project: string, name: string): boolean {
    return (this.#listOf(project) ?? []).some((pattern) => matchesTopic(pattern, name));
  }

  /** Returns the guarded projects whose names the topic name begins with. */
  #guardedOwners(name: string): string[] {
    const known = [...this.#bound, ...Object.keys(this.#projects)];
    return known.filter((project) => name.startsWith(`${project}_`) && this.#isGuarded(project));
  }

  #listOf(project: string): readonly string[] | undefined {
    return Object.hasOwn(this.#projects, project) ? this.#projects[project]?.topics : undefined;
  }
}

/** Whether a name matches a pattern, in which each `*` stands for any text. */
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

/** Returns why a name is reserved with any configuration; null if it is not. */
export function reservedTopic(name: string): Rejection | null {
  return refuseReserved(name, RESERVED);
}

/** Adds the place of the command in the definition to a refusal, in the form that parsers use. */
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

/** Returns the name under which workers serve a topic on the wire. */
export function topicUse(topic: string): string {
  return `${TOPIC_USE}${topic}`;
}

/** Returns the topic of a wire name; null if the wire name is that of a handler. */
export function topicOf(use: string): string | null {
  return use.startsWith(TOPIC_USE) ? use.slice(TOPIC_USE.length) : null;
}

/** Returns the default topic for receipts of commands on this topic. */
export function receiptTopicOf(topic: string): string {
  const segments = topic.split("_");
  const at = segments.indexOf("CMD");
  return at < 0 ? `${topic}_RECEIPT` : segments.with(at, "RECEIPT").join("_");
}
