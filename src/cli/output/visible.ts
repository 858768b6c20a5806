/** Makes text from outside safe to print on a terminal: each control character is replaced by a visible sign. */

const PICTURES = 0x2400;
const DELETE = 0x7f;
const DELETE_PICTURE = "\u2421";

const CONTROLS = /[^\P{Cc}\n\t]/gu;

/** Replaces control characters by visible signs, except line ends and tabs. */
export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll(CONTROLS, signOf);
}

/**
 * Writes a value as JSON text without control characters, except the line ends of indentation. Control characters that JSON
 * allows are escaped.
 */
export function jsonText(value: unknown, indent?: number): string {
  return (JSON.stringify(value, null, indent) ?? "null").replaceAll(
    /[^\P{Cc}\n]/gu,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function signOf(control: string): string {
  const code = control.charCodeAt(0);
  if (code === DELETE) return DELETE_PICTURE;
  return code < DELETE ? String.fromCharCode(PICTURES + code) : `\\x${code.toString(16)}`;
}
