/** Colours of the terminal, or none: NO_COLOR is respected, and what is no terminal gets plain text. */

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

  /** One line, cut to a width if one is given; styles take no room. */
  line(pieces: readonly Piece[], width = Number.POSITIVE_INFINITY): string {
    let left = width;
    let line = "";
    for (const piece of pieces) {
      const [text, style] = typeof piece === "string" ? [piece, null] : piece;
      const shown = text.length <= left ? text : `${text.slice(0, Math.max(0, left - 1))}…`.slice(0, left);
      left -= shown.length;
      line += style === null || !this.#isColoured ? shown : `\x1b[${CODES[style]}m${shown}\x1b[0m`;
      if (left <= 0) break;
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
