/** Writes permanent lines to standard error, and on a terminal live lines below them, which are redrawn. */
import { isColoured, isLive, Painter, type Piece } from "../style.ts";

/** The part of an output stream that the screen uses. */
export interface Terminal {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

const REDRAW_MS = 100;
const COLUMNS = 80;
const UP_AND_CLEAR = "\x1b[1A\x1b[2K";

export class Screen {
  readonly isLive: boolean;
  readonly #terminal: Terminal;
  readonly #painter: Painter;
  #render: (() => readonly (readonly Piece[])[]) | null = null;
  #drawn = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.isLive = isLive(terminal);
    this.#painter = new Painter(isColoured(terminal));
  }

  get columns(): number {
    return Math.max(20, this.#terminal.columns || COLUMNS);
  }

  /** Prints a permanent line. */
  print(...pieces: readonly Piece[]): void {
    this.write(`${this.#painter.line(pieces)}\n`);
  }

  /** Prints a permanent line of Rondo itself, as opposed to output of the user's code. */
  note(text: string): void {
    this.print(["rondo: ", "yellow"], text);
  }

  /** Prints permanent text unchanged. While live lines are shown, adds a line end if the text has none. */
  write(text: string): void {
    const isTorn = this.#render !== null && !text.endsWith("\n");
    this.#terminal.write(`${this.#erasure()}${text}${isTorn ? "\n" : ""}`);
    this.#drawn = 0;
    if (this.#render !== null) this.#draw();
  }

  /** Shows live lines; `render` is called for each redraw. Does nothing without a terminal. */
  live(render: () => readonly (readonly Piece[])[]): void {
    if (!this.isLive) return;
    this.#render = render;
    this.#timer ??= setInterval(() => this.#draw(), REDRAW_MS);
    this.#timer.unref();
    this.#draw();
  }

  /** Called when the user has pressed Enter this many times. Each time has moved the live lines up by one line. */
  moved(lines: number): void {
    if (this.#drawn > 0) this.#drawn += lines;
  }

  /** Removes the live lines. */
  still(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#render = null;
    if (this.#drawn > 0) this.#terminal.write(this.#erasure());
    this.#drawn = 0;
  }

  #draw(): void {
    if (this.#render === null) return;
    // One column of the terminal stays free, because some terminals wrap a full line.
    const lines = this.#render().map((pieces) => this.#painter.line(pieces, this.columns - 1));
    this.#terminal.write(`${this.#erasure()}${lines.map((line) => `${line}\n`).join("")}`);
    this.#drawn = lines.length;
  }

  #erasure(): string {
    return UP_AND_CLEAR.repeat(this.#drawn);
  }
}
