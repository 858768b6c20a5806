/**
 * Standard error: lines that stay, and beneath them, on a terminal, a few lines that are redrawn in place at most ten
 * times a second. Everything the CLI and user code say goes through here, so that nothing tears the live lines.
 */
import { isColoured, isLive, Painter, type Piece } from "../style.ts";

/** What the screen needs of a stream. */
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

  /** A line that stays. */
  print(...pieces: readonly Piece[]): void {
    this.write(`${this.#painter.line(pieces)}\n`);
  }

  /** Text that stays, as it is; what lacks a line's end gets one while there are live lines. */
  write(text: string): void {
    const isTorn = this.#render !== null && !text.endsWith("\n");
    this.#terminal.write(`${this.#erasure()}${text}${isTorn ? "\n" : ""}`);
    this.#drawn = 0;
    if (this.#render !== null) this.#draw();
  }

  /** Shows live lines from now on, asked for anew at each redraw; does nothing on what is no terminal. */
  live(render: () => readonly (readonly Piece[])[]): void {
    if (!this.isLive) return;
    this.#render = render;
    this.#timer ??= setInterval(() => this.#draw(), REDRAW_MS);
    this.#timer.unref();
    this.#draw();
  }

  /** The user has pressed Enter so many times: what is live stands so many lines higher than it was drawn. */
  moved(lines: number): void {
    if (this.#drawn > 0) this.#drawn += lines;
  }

  /** Takes the live lines away. */
  still(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#render = null;
    if (this.#drawn > 0) this.#terminal.write(this.#erasure());
    this.#drawn = 0;
  }

  #draw(): void {
    if (this.#render === null) return;
    // One column stays free: a full line makes some terminals wrap.
    const lines = this.#render().map((pieces) => this.#painter.line(pieces, this.columns - 1));
    this.#terminal.write(`${this.#erasure()}${lines.map((line) => `${line}\n`).join("")}`);
    this.#drawn = lines.length;
  }

  #erasure(): string {
    return UP_AND_CLEAR.repeat(this.#drawn);
  }
}
