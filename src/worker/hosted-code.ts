/** The handler code that a worker hosts, by workflow, wire name and version. */
import type { Grant } from "../protocol/work.ts";
import type { HandlerCode } from "./handler-code.ts";

export class HostedCode {
  readonly #codes = new Map<string, HandlerCode>();

  /** Adds code. Two workflows may share a handler's name; each brings its own way to read its input. */
  add(workflow: string, code: HandlerCode): void {
    for (const of of [workflow, ""]) {
      this.#codes.set(keyOf(of, code.use, code.version ?? ""), code);
      // For grants that name no version: whatever was added last.
      this.#codes.set(keyOf(of, code.use, ANY), code);
    }
  }

  /** The code for a grant: of the version it names, and rather of its own workflow than of another. */
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
