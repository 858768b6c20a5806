/**
 * The socket of `rondo run`: opened once the process has run for a moment, so that a short run does not pay for it.
 * Through it others see and steer what runs here, and work on the same directory.
 */
import type { Owner, ServerOptions } from "../../compose/compose-server.ts";

/** How long a run is short. */
const SHORT_MS = 300;

interface LateOptions extends Pick<ServerOptions, "heartbeatMs" | "retentionMs"> {
  /** Only a directory has a place for the socket. */
  readonly hasDirectory: boolean;
}

interface Closes {
  close(options?: { graceMs?: number }): Promise<void>;
}

export class LateServer {
  readonly #owner: Owner;
  readonly #options: LateOptions;
  #timer: NodeJS.Timeout | null = null;
  #opening: Promise<Closes> | null = null;

  constructor(owner: Owner, options: LateOptions) {
    this.#owner = owner;
    this.#options = options;
    if (options.hasDirectory) this.#timer = setTimeout(() => this.#open(), SHORT_MS);
  }

  /** Closes all there is: the server, and with it the node. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    const opened: Closes = (await this.#opening) ?? this.#owner.rondo;
    await opened.close(options);
  }

  #open(): void {
    this.#timer = null;
    // Without a socket the run goes on all the same: what kept it from opening is nothing to stop for.
    this.#opening = this.#owner
      .serve({ ...this.#options, port: null })
      .catch((): Closes => this.#owner.rondo);
  }
}
