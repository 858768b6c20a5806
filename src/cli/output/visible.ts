/**
 * Text of others (errors, logs, ids, keys) as it may reach a terminal: control characters would move the cursor, change
 * colours and titles, or hide what is said, so each is shown as a sign instead. Everything for people goes through here:
 * pieces of lines in style.ts, plain lines in print.ts and run-cli.ts, values as JSON in `jsonText`.
 */

const PICTURES = 0x2400;
const DELETE = 0x7f;
const DELETE_PICTURE = "\u2421";

const CONTROLS = /[^\P{Cc}\n\t]/gu;

/** The text with signs for control characters; lines and tabs stay. */
export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replaceAll(CONTROLS, signOf);
}

/** JSON that holds no control character but the line ends of an indented one: those that JSON leaves alone are escaped too. */
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
