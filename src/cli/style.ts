/** Colours of the terminal, or none: NO_COLOR is respected, and what is no terminal gets plain text. */
import { visible } from "./output/visible.ts";

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

export type Style = keyof typeof CODES;

/** A piece of a line and how it looks. */
export type Piece = string | readonly [text: string, style: Style];

/** Makes lines of pieces. */
export class Painter {
  readonly #isColoured: boolean;

  constructor(isColoured: boolean) {
    this.#isColoured = isColoured;
  }

  /** One line, cut to a width if one is given; styles take no room. What is cut is one line, whatever is in it. */
  line(pieces: readonly Piece[], width = Number.POSITIVE_INFINITY): string {
    const isOneLine = width !== Number.POSITIVE_INFINITY;
    const shownPieces = pieces.map((piece) => {
      const [text, style] = typeof piece === "string" ? [piece, null] : piece;
      const safe = visible(text);
      return { text: isOneLine ? safe.replaceAll(/[\n\t]/g, " ") : safe, style };
    });
    const length = shownPieces.reduce((sum, { text }) => sum + text.length, 0);
    // What is cut ends with a mark, also where a piece ends at the edge.
    const isCut = length > width;
    let left = isCut ? width - 1 : width;
    let line = "";
    for (const { text, style } of shownPieces) {
      const shown = isCut && text.length >= left ? `${text.slice(0, left)}…` : text;
      left -= shown.length;
      line += style === null || !this.#isColoured ? shown : `\x1b[${CODES[style]}m${shown}\x1b[0m`;
      if (isCut && left <= 0) break;
    }
    return line;
  }
}

/** Whether a stream is a terminal whose lines can be redrawn. */
export function isLive(stream: { readonly isTTY?: boolean | undefined }): boolean {
  return stream.isTTY === true && process.env["TERM"] !== "dumb";
}

/** Whether to colour what goes to a stream. */
export function isColoured(stream: { readonly isTTY?: boolean | undefined }): boolean {
  return isLive(stream) && (process.env["NO_COLOR"] ?? "") === "";
}
