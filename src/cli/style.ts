/** Terminal colours. NO_COLOR is respected, and output that is not a terminal gets plain text. */
import { visible } from "./output/visible.ts";

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

export type Style = keyof typeof CODES;

/** A part of a line, with its style. */
export type Piece = string | readonly [text: string, style: Style];

/** Joins pieces of text to lines. */
export class Painter {
  readonly #isColoured: boolean;

  constructor(isColoured: boolean) {
    this.#isColoured = isColoured;
  }

  /** Makes one line, cut to `width` if that is given. Styles do not count for the width. Line ends are removed from a line that is cut. */
  line(pieces: readonly Piece[], width = Number.POSITIVE_INFINITY): string {
    const isOneLine = width !== Number.POSITIVE_INFINITY;
    const shownPieces = pieces.map((piece) => {
      const [text, style] = typeof piece === "string" ? [piece, null] : piece;
      const safe = visible(text);
      return { text: isOneLine ? safe.replaceAll(/[\n\t]/g, " ") : safe, style };
    });
    const length = shownPieces.reduce((sum, { text }) => sum + text.length, 0);
    // A line that is cut ends with the mark `…`, even if the cut is between two pieces.
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

/** Whether output to a stream is coloured. */
export function isColoured(stream: { readonly isTTY?: boolean | undefined }): boolean {
  return isLive(stream) && (process.env["NO_COLOR"] ?? "") === "";
}
