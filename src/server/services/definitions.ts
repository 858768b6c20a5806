/** Definitions for the API: parsed, compiled and with their schemas, in a small cache by hash. */

import { isShapeName, isSubmissionName } from "../../commands/submission-definition.ts";
import type { TopicGuard } from "../../commands/topic-guard.ts";
import { storeDefinition } from "../../engine/store-definition.ts";
import type { Definition } from "../../kernel/definition/definition.ts";
import { parseDefinition, parseStored } from "../../kernel/definition/parse-definition.ts";
import { compilePlan, type Plan } from "../../kernel/definition/plan.ts";
import { usableDefinition } from "../../kernel/definition/read-definition.ts";
import { splitVersionedName, versionedName } from "../../kernel/definition/version-name.ts";
import { isRelayName } from "../../kernel/relay/relay.ts";
import { noteReplaced } from "../../retention/unused-definitions.ts";
import type { Clock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { SharedReads } from "../../std/shared-reads.ts";
import type { DocumentStore } from "../../store/store.ts";
import type { PostOpPort } from "../parts.ts";
import type { SchemaChecker, ValueCheck } from "./schema-checker.ts";

/** A compiled definition, ready to be started. */
export interface KnownDefinition {
  readonly hash: string;
  readonly definition: Definition;
  readonly plan: Plan;
  /** Checks the input of a start; null if the definition has no input schema. */
  readonly input: ValueCheck | null;
  /**
   * Schemas of signals by name; a payload must match one of them. A signal is missing here if some wait accepts it without a
   * schema.
   */
  readonly signals: ReadonlyMap<string, readonly ValueCheck[]>;
}

export interface DefinitionParts {
  readonly store: DocumentStore;
  readonly schemas: SchemaChecker;
  readonly postOps: PostOpPort;
  readonly topics: Pick<TopicGuard, "check">;
  readonly clock: Pick<Clock, "now">;
}

const KEPT_MAX = 200;
/** The most shapes of submitted documents in the cache. Further documents have definitions of their own. */
const SHAPES_MAX = 500;
/** The most steps of these shapes together: a plan takes about 1.5 KB for each step. */
const SHAPE_STEPS_MAX = 10_000;
/**
 * How long a definition counts as stored after an execution of it was started. Retention deletes a definition only if it finds no
 * execution of it for an hour.
 */
const STORED_MS = 60_000;

export class Definitions {
  readonly #parts: DefinitionParts;
  readonly #kept = new Map<string, KnownDefinition>();
  /** Shapes of submitted documents, by their keys. */
  readonly #shapes = new Map<string, KnownDefinition>();
  #shapeSteps = 0;
  /** When an execution of each definition of a submission was last started here. */
  readonly #startedAt = new WeakMap<KnownDefinition, number>();
  /** Any node of a cluster may store a newer definition, so each start reads which is the newest. */
  readonly #newest = new SharedReads((name) => this.#parts.store.getDefinition({ newestOf: name }));

  constructor(parts: DefinitionParts) {
    this.#parts = parts;
  }

  /** The newest definition of a workflow, or that of a version (`NAME@VERSION`). */
  async newest(name: string): Promise<KnownDefinition | Rejection> {
    // Relays are started by events only, and executions of a shape by submissions only.
    const found = isRelayName(name) || isShapeName(name) ? null : await this.#newest.read(name);
    if (found === null) return unknownWorkflow(name);
    return this.#kept.get(found.hash) ?? this.#read(found);
  }

  async byHash(hash: string): Promise<KnownDefinition | Rejection> {
    const kept = this.#kept.get(hash);
    if (kept !== undefined) return kept;
    const found = await this.#parts.store.getDefinition({ hash });
    return found === null
      ? reject("not_found", `there is no definition with the hash ${hash.slice(0, 80)}`)
      : this.#read(found);
  }

  /**
   * Stores a definition as the newest of its name; of those with a version, the highest one is the newest. `isNew` is false if
   * the definition was the newest before, or has not become the newest.
   */
  async put(data: unknown): Promise<{ known: KnownDefinition; isNew: boolean } | Rejection> {
    const known = await this.#prepare(data);
    if (isRejection(known)) return known;
    const wrong =
      (await this.#wrongPlace(known.plan)) ??
      inDefinition(await this.#parts.topics.check(known.plan.commands));
    return wrong ?? { known, isNew: await this.#storeNewest(known) };
  }

  /** Stores a checked definition as the newest of its name; returns whether it has become the newest, and was not before. */
  async #storeNewest({ definition, hash, plan }: KnownDefinition): Promise<boolean> {
    const { store } = this.#parts;
    const before = await store.getDefinition({ newestOf: definition.name });
    const reference = versionedName(definition.name, definition.version);
    const isNamed =
      reference === definition.name || (await store.getDefinition({ newestOf: reference }))?.hash === hash;
    // A damaged definition is stored again, which repairs it.
    if (isNamed && before?.hash === hash && !isRejection(usableDefinition(before))) return false;
    // Definitions of submissions, which are named by their content, are deleted with their last execution.
    if (before !== null && isSubmissionName(definition.name))
      await noteReplaced(store, { name: definition.name, hash: before.hash });
    return (await storeDefinition(store, plan)) && before?.hash !== hash;
  }

  /** Compiles a parsed definition of a submission, without storing it. */
  async compile(definition: Definition): Promise<KnownDefinition | Rejection> {
    const known = await this.#prepare(definition, (parsed) => parsed);
    return isRejection(known) ? known : ((await this.#wrongPlace(known.plan)) ?? known);
  }

  /** The compiled definition of a shape of documents, if it is in the cache. */
  shape(key: string): KnownDefinition | undefined {
    return this.#shapes.get(key);
  }

  /** Compiles the definition of a shape, without storing it; null if the cache of shapes is full. */
  async addShape(key: string, definition: Definition): Promise<KnownDefinition | Rejection | null> {
    const steps = definition.phases.length;
    if (this.#shapes.size >= SHAPES_MAX || this.#shapeSteps + steps > SHAPE_STEPS_MAX) return null;
    const known = await this.compile(definition);
    if (isRejection(known)) return known;
    // Another request may have added the shape meanwhile.
    if (!this.#shapes.has(key)) this.#shapeSteps += steps;
    this.#shapes.set(key, known);
    return known;
  }

  /**
   * Stores the definitions that may be missing. Returns the hashes of those that had been stored before, and of those that were started
   * a moment ago. The caller stores all of them again after the starts.
   */
  async putMissing(all: readonly KnownDefinition[]): Promise<ReadonlySet<string>> {
    const since = this.#parts.clock.now() - STORED_MS;
    const missing: KnownDefinition[] = [];
    const before = new Set<string>();
    for (const known of all) {
      if ((this.#startedAt.get(known) ?? since) <= since) missing.push(known);
      else before.add(known.hash);
    }
    if (missing.length > 0) for (const hash of await this.putAll(missing)) before.add(hash);
    return before;
  }

  /**
   * Stores definitions of submissions, each as the newest of its name, in one transaction. Returns the hashes of those that were
   * stored before.
   */
  async putAll(all: readonly KnownDefinition[]): Promise<ReadonlySet<string>> {
    const firsts = new Map<string, KnownDefinition>();
    const others = new Map<string, KnownDefinition>();
    for (const known of all) {
      const { name } = known.definition;
      const first = firsts.get(name);
      if (first === undefined) firsts.set(name, known);
      else if (first.hash !== known.hash) others.set(known.hash, known);
    }
    const added = [...firsts.values()];
    const found = await this.#parts.store.addDefinitions(
      added.map(({ definition, hash }) => ({
        name: definition.name,
        hash,
        body: JSON.stringify(definition),
      })),
    );
    const before = new Set<string>();
    added.forEach((known, i) => {
      if (found[i] === "same") before.add(known.hash);
      if (found[i] === "other") others.set(known.hash, known);
    });
    // A definition is stored for itself if its name has another definition in the store or a damaged one, or if another request stores it now.
    for (const known of others.values()) if (!(await this.#storeNewest(known))) before.add(known.hash);
    return before;
  }

  /** Called with definitions of which executions were just started. For a while they need not be stored before further starts. */
  noteStarted(all: readonly KnownDefinition[]): void {
    const now = this.#parts.clock.now();
    for (const known of all) this.#startedAt.set(known, now);
  }

  /** Checks the state stores that a definition names. Targets of broadcasts are checked when the broadcast is sent. */
  async #wrongPlace(plan: Plan): Promise<Rejection | null> {
    for (const { phase, handler, command } of plan.commands) {
      if (command.persistence === null) continue;
      const refusal = await this.#parts.postOps.refusalOf(command.persistence);
      if (refusal !== null)
        return reject("invalid_definition", `${phase.name}.${handler.name}: ${refusal.message}`, {
          path: `cmd_metadata.cmd_post_op.cmd_result_persistence.target_statestore_${refusal.path === "key" ? "key" : "name"}`,
          ...defined({ hint: refusal.hint }),
        });
    }
    return null;
  }

  async #read(found: { readonly hash: string; readonly body: string }): Promise<KnownDefinition | Rejection> {
    const definition = usableDefinition(found);
    return isRejection(definition) ? definition : this.#prepare(definition, parseStored);
  }

  async #prepare<T>(
    data: T,
    parse: (data: T) => Definition | Rejection = parseDefinition,
  ): Promise<KnownDefinition | Rejection> {
    const definition = parse(data);
    if (isRejection(definition)) return definition;
    const input =
      definition.input === undefined ? null : await this.#parts.schemas.of(definition.input, "input");
    if (isRejection(input)) return input;
    const signals = await signalChecks(definition, this.#parts.schemas);
    if (isRejection(signals)) return signals;
    const plan = compilePlan(definition);
    const known: KnownDefinition = { hash: plan.hash, definition, plan, input, signals };
    this.#kept.delete(known.hash);
    this.#kept.set(known.hash, known);
    if (this.#kept.size > KEPT_MAX)
      for (const oldest of [...this.#kept.keys()].slice(0, 1)) this.#kept.delete(oldest);
    return known;
  }
}

function unknownWorkflow(reference: string): Rejection {
  const { name, version } = splitVersionedName(reference.slice(0, 160));
  return version === null
    ? reject("not_found", `there is no workflow "${name.slice(0, 60)}"`, {
        path: "workflow",
        hint: "register it with POST /v1/workflows, or run a worker that serves it",
      })
    : reject("not_found", `the workflow "${name.slice(0, 60)}" has no version ${version}`, {
        path: "workflow",
        hint: `to list its versions: rondo versions ${name.slice(0, 60)}`,
      });
}

/** Converts a rejection about a topic into a rejection of the definition. */
function inDefinition(refusal: Rejection | null): Rejection | null {
  return refusal === null ? null : { ...refusal, code: "invalid_definition" };
}

async function signalChecks(
  definition: Definition,
  schemas: SchemaChecker,
): Promise<Map<string, readonly ValueCheck[]> | Rejection> {
  const checks = new Map<string, ValueCheck[]>();
  const unchecked = new Set<string>();
  for (const phase of definition.phases) {
    for (const [name, handler] of Object.entries(phase.handlers)) {
      if (handler.waitFor === undefined) continue;
      if (handler.schema === undefined) unchecked.add(handler.waitFor);
      else {
        const check = await schemas.of(handler.schema, `phase "${phase.name}" handler "${name}".schema`);
        if (isRejection(check)) return check;
        checks.set(handler.waitFor, [...(checks.get(handler.waitFor) ?? []), check]);
      }
    }
  }
  for (const signal of unchecked) checks.delete(signal);
  return checks;
}
