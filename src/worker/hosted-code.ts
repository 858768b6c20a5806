/** The handler code that a worker hosts, by workflow, wire name and version. */
import type { Grant } from "../protocol/work.ts";
import type { HandlerCode } from "./handler-code.ts";

export class HostedCode {
  readonly #codes = new Map<string, HandlerCode>();

  /** Adds code. Two workflows may share a handler's name; each has its own `parseInput`. */
  add(workflow: string, code: HandlerCode): void {
    for (const of of [workflow, ""]) {
      this.#codes.set(keyOf(of, code.use, code.version ?? ""), code);
      // For grants without a version: the code that was added last.
      this.#codes.set(keyOf(of, code.use, ANY), code);
    }
  }

  /** The code for a grant: of the grant's version, and of its own workflow if possible. */
  find({ workflow, use, version }: Pick<Grant, "workflow" | "use" | "version">): HandlerCode | undefined {
    if (version !== null) return this.#find(workflow, use, version);
    return this.#find(workflow, use, "") ?? this.#find(workflow, use, ANY);
  }

  #find(workflow: string, use: string, version: string): HandlerCode | undefined {
    return this.#codes.get(keyOf(workflow, use, version)) ?? this.#codes.get(keyOf("", use, version));
  }
}

const ANY = "*";

function keyOf(workflow: string, use: string, version: string): string {
  return `${workflow} ${use} ${version}`;
}
