/**
 * The streams that an attempt writes. A chunk belongs to the step that writes it, or to the code outside of steps. Each writer
 * numbers its chunks from 0 in each of its runs, so a reader knows by the number 0 that the writer has begun again.
 */
import { NAME_RULE, whyNoName } from "../kernel/definition/names.ts";
import { CHUNK_BYTES_MAX, STREAM_BYTES_MAX } from "../protocol/stream-piece.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import type { StreamWriter } from "./handler-code.ts";
import type { AttemptLog } from "./log/attempt-log.ts";
import type { Secrets } from "./log/secrets.ts";
import { fatal } from "./step-options.ts";

/** The step that the running code belongs to. `run` is a different object in each run of the step. */
export interface StepRun {
  readonly step: string;
  readonly run: object;
}

export interface StreamsOptions {
  readonly log: AttemptLog;
  readonly secrets: Secrets;
  /** The step that contains the running code; null outside of steps. */
  readonly inStep: () => StepRun | null;
  readonly isOver: () => boolean;
}

/** A writer of a stream: its current run, and the number of its next chunk. */
interface Writer {
  readonly run: object;
  next: number;
}

interface OpenStream {
  readonly writers: Map<string | undefined, Writer>;
  readonly writer: StreamWriter;
  hasEnded: boolean;
}

export class AttemptStreams {
  readonly #options: StreamsOptions;
  readonly #open = new Map<string, OpenStream>();
  #bytes = 0;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  /** Returns the writer of the stream with this name. */
  open(name: string): StreamWriter {
    const known = this.#open.get(name);
    if (known !== undefined) return known.writer;
    const wrong = whyNoName(name);
    if (wrong !== null) throw fatal(`the name of a stream ${wrong} (a name has ${NAME_RULE})`);
    const writer = {
      write: (chunk: unknown) => this.#write(name, stream, chunk),
      end: () => this.#end(name, stream),
    };
    const stream: OpenStream = { writers: new Map(), writer, hasEnded: false };
    this.#open.set(name, stream);
    return writer;
  }

  /** Ends all streams of the attempt. Called when its task is done. */
  endAll(): void {
    for (const [name, stream] of this.#open) this.#end(name, stream);
  }

  /**
   * Adds a chunk. If the chunk is refused, it throws synchronously, because a rejected promise that nobody awaits would end the process.
   */
  #write(name: string, stream: OpenStream, chunk: unknown): Promise<void> {
    const { log, secrets, isOver } = this.#options;
    if (isOver()) return Promise.resolve();
    if (stream.hasEnded) throw fatal(`stream "${name}" has ended: write before end()`);
    const text = toStoredText(chunk, { bytesMax: CHUNK_BYTES_MAX, what: `a chunk of the stream "${name}"` });
    if (isRejection(text)) throw fatal(text.message);
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > STREAM_BYTES_MAX)
      throw fatal(`stream "${name}": an attempt writes at most ${STREAM_BYTES_MAX} bytes to its streams`);
    const { step, index } = this.#place(stream);
    log.chunk(
      { stream: name, index, ...(step === undefined ? {} : { step }) },
      secrets.isEmpty ? text : secrets.redactJson(text),
    );
    return log.room();
  }

  #end(name: string, stream: OpenStream): void {
    if (stream.hasEnded || this.#options.isOver()) return;
    stream.hasEnded = true;
    this.#options.log.chunk({ stream: name, index: 0, end: true }, null);
  }

  /** Returns the writer to which the running code belongs, with the number of its next chunk. */
  #place({ writers }: OpenStream): { readonly step: string | undefined; readonly index: number } {
    const inside = this.#options.inStep();
    const step = inside?.step;
    const run = inside?.run ?? this;
    let writer = writers.get(step);
    if (writer?.run !== run) {
      writer = { run, next: 0 };
      writers.set(step, writer);
    }
    return { step, index: writer.next++ };
  }
}
