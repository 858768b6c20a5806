/** What is shown of settings: the URLs of stores and brokers carry passwords, which are nobody's to read. */

/** What stands for a secret. */
export const HIDDEN = "(secret)";

/** A text with the password of every URL in it hidden: before the host, and among its parameters. */
export function withoutPassword(text: string): string {
  return text
    .replace(/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/?#@,]*):[^\s/?#,]*@/gi, `$1:${HIDDEN}@`)
    .replace(/([?&](?:password|token|secret)=)[^\s&#,]*/gi, `$1${HIDDEN}`);
}

/** Whether something is a secret by its name. */
export function isSecretName(name: string): boolean {
  return /secret|token|password/i.test(name);
}

/** The same value, with the password of every URL in it, and every text that is a secret by its name, hidden. */
export function hidePasswords(value: unknown): unknown {
  if (typeof value === "string") return withoutPassword(value);
  if (Array.isArray(value)) return value.map(hidePasswords);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      typeof one === "string" && isSecretName(key) ? HIDDEN : hidePasswords(one),
    ]),
  );
}
